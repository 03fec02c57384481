// A notebook's session as a console on one of its ranks has it: code runs on that rank, and names are those of that rank. All else
// is the notebook's own session.
import type { ISessionContext } from '@jupyterlab/apputils';
import { Text } from '@jupyterlab/coreutils';
import type { Kernel, KernelMessage, Session } from '@jupyterlab/services';
import type { ConsoleModel } from '../model/console_model';
import { belowMagic, onRank, readMagic } from '../model/magic';
import { isRecord } from '../model/parse';
import type { Server } from '../model/server';

type Asks = Pick<Server, 'control'>;

/** @param banner returns what the console begins with. */
export function sessionOnRank(context: ISessionContext, model: ConsoleModel, server: Asks, banner: () => string): ISessionContext {
  const kernels = new WeakMap<Kernel.IKernelConnection, Kernel.IKernelConnection>();
  const kernelOf = (kernel: Kernel.IKernelConnection): Kernel.IKernelConnection => {
    const found = kernels.get(kernel) ?? kernelOnRank(kernel, model, server, banner);
    kernels.set(kernel, found);
    return found;
  };
  const sessionOf = (session: Session.ISessionConnection): Session.ISessionConnection =>
    overriding(session, {
      get kernel() {
        return session.kernel === null ? null : kernelOf(session.kernel);
      },
    });
  return overriding(context, {
    get session() {
      return context.session === null ? null : sessionOf(context.session);
    },
  });
}

function kernelOnRank(kernel: Kernel.IKernelConnection, model: ConsoleModel, server: Asks, banner: () => string): Kernel.IKernelConnection {
  const { rank } = model;
  const ask = async (what: 'complete' | 'inspect', code: string, cursor: number, more = {}): Promise<Record<string, unknown>> => {
    const found = await server.control(kernel.id, what, { code, cursor, rank, ...more });
    return isRecord(found) ? found : {};
  };
  return overriding(kernel, {
    get info() {
      return kernel.info.then((info) => ({ ...info, banner: banner() }));
    },
    requestExecute: (content, disposeOnDone, metadata) => {
      const sent = model.send();
      // The notebook's count is the same without the console, and an error here ends none of its cells that wait.
      const own = { ...content, code: onRank(content.code, rank), store_history: false, stop_on_error: false };
      const future = kernel.requestExecute(own, disposeOnDone, metadata);
      future.registerMessageHook((message) => {
        const content: unknown = message.content;
        if (message.header.msg_type === 'status' && isRecord(content) && content['execution_state'] === 'busy') {
          sent.began();
        }
        return true;
      });
      void future.done.catch(() => undefined).then(sent.ended);
      return future;
    },
    // The kernel's history is the notebook's.
    requestHistory: async () => ({ content: { status: 'ok', history: [] } }) as unknown as KernelMessage.IHistoryReplyMsg,
    requestComplete: async ({ code, cursor_pos }) => {
      const place = placeOn(code, cursor_pos);
      const found = place === null ? {} : await ask('complete', place.code, place.cursor);
      const at = (name: string): number => (typeof found[name] === 'number' ? found[name] + (place?.skipped ?? 0) : cursor_pos);
      const matches = Array.isArray(found['matches']) ? found['matches'].filter((match) => typeof match === 'string') : [];
      const content = { status: 'ok', matches, cursor_start: at('start'), cursor_end: at('end'), metadata: {} };
      return { content } as unknown as KernelMessage.ICompleteReplyMsg;
    },
    requestInspect: async ({ code, cursor_pos, detail_level }) => {
      const place = placeOn(code, cursor_pos);
      const found = place === null ? {} : await ask('inspect', place.code, place.cursor, { detail: detail_level });
      const data = isRecord(found['data']) ? found['data'] : {};
      const content = { status: 'ok', found: found['found'] === true, data, metadata: {} };
      return { content } as unknown as KernelMessage.IInspectReplyMsg;
    },
  });
}

/** Return the code that a rank gets and a place in it, in characters; null for a place in the magic's own line. */
function placeOn(code: string, cursor: number): { readonly code: string; readonly cursor: number; readonly skipped: number } | null {
  if (readMagic(code) === null) {
    return { code, cursor, skipped: 0 };
  }
  const below = belowMagic(code, Text.charIndexToJsIndex(cursor, code));
  if (below === null) {
    return null;
  }
  return { code: below.code, cursor: Text.jsIndexToCharIndex(below.cursor, below.code), skipped: [...code.slice(0, below.skipped)].length };
}

/** Return an object as it is, but for some of its parts. */
function overriding<T extends object>(target: T, own: Partial<T>): T {
  return new Proxy(target, {
    get: (_, name): unknown => {
      if (Object.hasOwn(own, name)) {
        return Reflect.get(own, name);
      }
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
