// Leads what JupyterLab's debugger asks of a notebook's kernel to one of its ranks, and the rank's events to it.
import type { Kernel } from '@jupyterlab/services';
import { type JSONObject, PromiseDelegate } from '@lumino/coreutils';
import type { Signal } from '@lumino/signaling';
import type { DebugAnswer, RankDebug } from '../model/rank_debug';

/** Lead a kernel's debug requests to a rank. JupyterLab has this very object from the notebook's session, whenever that gets the focus. */
export function lead(kernel: Kernel.IKernelConnection, debug: RankDebug): void {
  Object.defineProperty(kernel, 'requestDebug', { value: (content: JSONObject) => futureOf(debug.request(content)), configurable: true });
}

/** Give the requests back to the kernel. */
export function leadBack(kernel: Kernel.IKernelConnection): void {
  Reflect.deleteProperty(kernel, 'requestDebug');
}

/** Have an event come as if it were the kernel's. */
export function emit(kernel: Kernel.IKernelConnection, content: JSONObject): void {
  const message = { channel: 'iopub', header: { msg_type: 'debug_event' }, parent_header: {}, metadata: {}, content };
  (kernel.iopubMessage as unknown as Signal<unknown, unknown>).emit(message);
}

interface Reply {
  readonly content: DebugAnswer;
}

/** Return a reply as the debugger waits for it. Source: jupyterlab 4.6, packages/debugger/src/session.ts, _sendDebugMessage */
function futureOf(answer: Promise<DebugAnswer>): unknown {
  const done = new PromiseDelegate<Reply>();
  const future = { done: done.promise, onReply: (_: Reply): unknown => undefined, dispose: (): void => undefined };
  void answer.then((content) => {
    future.onReply({ content });
    done.resolve({ content });
  });
  return future;
}
