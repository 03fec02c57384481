// What comes back when the page is loaded again: what the form held, and the marks of cells.
import type { IStateDB } from '@jupyterlab/statedb';
import type { HubModel } from './model/hub';
import { parseHubMessage } from './model/hub_messages';
import { isRecord } from './model/parse';
import type { StartFields } from './model/start';
import { NAMESPACE } from './tokens';

const FORM = `${NAMESPACE}:form`;
const CELLS = `${NAMESPACE}:cells`;
const MAX_CELLS = 200;

export interface Kept {
  readonly form: Promise<Partial<StartFields>>;
  readonly keepForm: (fields: StartFields) => void;
}

export function keepState(state: IStateDB | null, hub: HubModel): Kept {
  if (state === null) {
    return { form: Promise.resolve({}), keepForm: () => undefined };
  }
  void state.fetch(CELLS).then((found) => {
    for (const notice of Array.isArray(found) ? found : []) {
      const message = parseHubMessage(JSON.stringify(notice));
      if (message?.type === 'run_notice') {
        hub.remember(message);
      }
    }
  });
  hub.noticed.connect(() => {
    const newest = [...hub.cells.values()].slice(-MAX_CELLS).map((notice) => ({ ...notice }));
    void state.save(CELLS, newest);
  });
  return {
    form: state.fetch(FORM).then(fieldsOf),
    keepForm: ({ ranks, threads, name }) => void state.save(FORM, { ranks, threads, name }),
  };
}

function fieldsOf(found: unknown): Partial<StartFields> {
  const text = (name: string): Partial<StartFields> =>
    isRecord(found) && typeof found[name] === 'string' ? { [name]: found[name] } : {};
  return { ...text('ranks'), ...text('threads'), ...text('name') };
}
