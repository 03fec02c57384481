// Whether the notebook in front can have ranks that run already, or that a job brings.
import type { CurrentNotebook } from '../notebook/current';
import type { Context } from './context';

export interface Attachable {
  /** The notebook's path; null where it can have none. */
  readonly where: string | null;
  /** Why it can have none. */
  readonly why: string;
}

/** @param isBusy a line runs in the notebook already. */
export function attachable({ hub, trans }: Context, { panel, kernel }: CurrentNotebook, isBusy: boolean): Attachable {
  const hasRanks = hub.withRanks().some((state) => state.kernel === kernel?.id);
  const why = hasRanks ? trans.__('The notebook in front has ranks.') : trans.__('Open a notebook that has a kernel, which gets the ranks.');
  return { where: panel === null || kernel === null || hasRanks || isBusy ? null : panel.context.path, why };
}
