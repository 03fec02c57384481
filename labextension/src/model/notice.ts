// What there is to know of a run's beginning or end.
import type { Fault } from './events';
import type { RunNotice } from './hub_messages';

/** As the hub reports it, with any state of a newer one; or as the browser finds a run ended, which may be "cut off". */
export type Notice = Omit<RunNotice, 'state' | 'fault'> & { readonly state: string; readonly fault: Pick<Fault, 'text'> | null };
