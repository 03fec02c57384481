// Leads what JupyterLab's debugger asks of a notebook's kernel to one of its ranks, and the rank's events to it.
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { type JSONObject, PromiseDelegate, UUID } from '@lumino/coreutils';
import type { Signal } from '@lumino/signaling';
import type { DebugAnswer, RankDebug } from '../model/rank_debug';

/** The way of one kernel's debug requests, until it is disposed. */
export class DebugRoute {
  constructor(
    private readonly kernel: Kernel.IKernelConnection,
    private readonly debug: RankDebug,
  ) {
    const requestDebug = (content: JSONObject): unknown => futureOf(debug.request(content));
    // JupyterLab's handler has this very object from the notebook's session whenever the notebook gets the focus.
    Object.defineProperty(kernel, 'requestDebug', { value: requestDebug, configurable: true });
    debug.events.connect(this.emit, this);
  }

  /** Give the requests back to the kernel. */
  dispose(): void {
    Reflect.deleteProperty(this.kernel, 'requestDebug');
    this.debug.dispose();
  }

  private emit(_: RankDebug, content: JSONObject): void {
    const header = { msg_type: 'debug_event', msg_id: UUID.uuid4(), date: '', session: '', username: '', version: '5.3' };
    const message = { channel: 'iopub', header, parent_header: {}, metadata: {}, buffers: [], content };
    const { iopubMessage } = this.kernel as unknown as { readonly iopubMessage: Signal<unknown, unknown> };
    iopubMessage.emit(message);
  }
}

/** Return a reply as the debugger waits for it. Source: jupyterlab 4.6, packages/debugger/src/session.ts, _sendDebugMessage */
function futureOf(answer: Promise<DebugAnswer>): Partial<Kernel.IControlFuture<KernelMessage.IDebugRequestMsg, KernelMessage.IDebugReplyMsg>> {
  const done = new PromiseDelegate<KernelMessage.IDebugReplyMsg>();
  const future = { done: done.promise, onReply: (_: KernelMessage.IDebugReplyMsg): unknown => undefined, dispose: (): void => undefined };
  void answer.then((content) => {
    const reply = { content } as unknown as KernelMessage.IDebugReplyMsg;
    void future.onReply(reply);
    done.resolve(reply);
  });
  return future as Partial<Kernel.IControlFuture<KernelMessage.IDebugRequestMsg, KernelMessage.IDebugReplyMsg>>;
}
