// Ranks are started as a user would: by the magic, in the notebook's kernel.
import type { Kernel } from '@jupyterlab/services';
import { plain } from '../model/lines';
import { startCell } from '../model/start';
import type { Words } from '../model/words';

/** Run a line in a kernel, once its cells have ended.
 *
 * @throws Error with what the line raised.
 */
export async function runLine(kernel: Kernel.IKernelConnection, line: string, trans: Words): Promise<void> {
  const future = kernel.requestExecute({
    code: startCell(line),
    store_history: false,
    stop_on_error: true,
    allow_stdin: false,
  });
  const { content } = await future.done;
  if (content.status === 'error') {
    throw new Error(plain(`${content.ename}: ${content.evalue}`));
  }
  if (content.status !== 'ok') {
    throw new Error(trans.__('A cell that failed or was interrupted took the start with it. Start again.'));
  }
}
