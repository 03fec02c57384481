// Completion and Shift-Tab in a cell that runs on ranks: rank 0's names, through the hub. The kernel is not asked, and
// nothing waits where rank 0 is busy.
import type { CompletionHandler, ICompletionContext, ICompletionProvider } from '@jupyterlab/completer';
import { Text } from '@jupyterlab/coreutils';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { ITooltipManager } from '@jupyterlab/tooltip';
import type { HubModel } from '../model/hub';
import { belowMagic, runsOnRanks } from '../model/magic';
import { isRecord } from '../model/parse';
import type { Server } from '../model/server';
import type { NotebookPanel } from './panels';

const NOTHING: CompletionHandler.ICompletionItemsReply = { start: 0, end: 0, items: [] };

export class RankCompletions implements ICompletionProvider {
  readonly identifier = 'CompletionProvider:jupyter-ddl';
  /** Before the kernel's own, which knows nothing of the ranks. */
  readonly rank = 700;
  readonly renderer = null;

  constructor(
    private readonly server: Server,
    private readonly hub: HubModel,
  ) {}

  async isApplicable({ editor, session, widget }: ICompletionContext): Promise<boolean> {
    const source = editor?.model.sharedModel.getSource() ?? '';
    const kernel = session?.kernel?.id;
    // A console on a rank asks that rank itself.
    return !widget.hasClass('ddl-rank-console') && runsOnRanks(source, this.hub.runsWhole(kernel) ?? false) && hasRanks(this.hub, kernel);
  }

  async fetch(
    { text, offset }: CompletionHandler.IRequest,
    { session }: ICompletionContext,
  ): Promise<CompletionHandler.ICompletionItemsReply> {
    const kernel = session?.kernel?.id;
    const below = belowMagic(text, offset, this.hub.runsWhole(kernel) ?? false);
    if (below === null || kernel === undefined) {
      return NOTHING;
    }
    const cursor = Text.jsIndexToCharIndex(below.cursor, below.code);
    const found = await this.server.control(kernel, 'complete', { code: below.code, cursor });
    if (!isRecord(found) || !Array.isArray(found['matches'])) {
      return NOTHING;
    }
    const place = (value: unknown): number =>
      below.skipped + Text.charIndexToJsIndex(typeof value === 'number' ? value : cursor, below.code);
    const matches = found['matches'].filter((match) => typeof match === 'string');
    return { start: place(found['start']), end: place(found['end']), items: matches.map((label) => ({ label, type: 'rank' })) };
  }
}

/** Show what rank 0 knows of the name under the cursor. */
export async function showTooltip(panel: NotebookPanel, tooltips: ITooltipManager, server: Server, hub: HubModel): Promise<void> {
  const { activeCell, rendermime } = panel.content;
  const kernel = panel.sessionContext.session?.kernel ?? null;
  const editor = activeCell?.editor ?? null;
  if (kernel === null || editor === null || !hasRanks(hub, kernel.id)) {
    return;
  }
  tooltips.invoke({ anchor: panel.content, editor, kernel: askingRanks(kernel, server, hub), rendermime });
}

/** Return the kernel as it is, but for what its inspections say. */
function askingRanks(kernel: Kernel.IKernelConnection, server: Server, hub: HubModel): Kernel.IKernelConnection {
  const requestInspect = async (request: KernelMessage.IInspectRequestMsg['content']): Promise<KernelMessage.IInspectReplyMsg> => {
    const cursor = Text.charIndexToJsIndex(request.cursor_pos, request.code);
    const below = belowMagic(request.code, cursor, hub.runsWhole(kernel.id) ?? false);
    const found =
      below === null
        ? null
        : await server.control(kernel.id, 'inspect', {
            code: below.code,
            cursor: Text.jsIndexToCharIndex(below.cursor, below.code),
            detail: request.detail_level,
          });
    const data = isRecord(found) && isRecord(found['data']) ? found['data'] : {};
    const content = { status: 'ok', found: isRecord(found) && found['found'] === true, data, metadata: {} };
    // The tooltip reads the content only.
    return { content } as unknown as KernelMessage.IInspectReplyMsg;
  };
  return Object.create(kernel, { requestInspect: { value: requestInspect } }) as Kernel.IKernelConnection;
}

function hasRanks(hub: HubModel, kernel: string | undefined): boolean {
  const cluster = kernel === undefined ? null : (hub.kernels.get(kernel)?.cluster ?? null);
  return cluster !== null && cluster.state !== 'stopped';
}
