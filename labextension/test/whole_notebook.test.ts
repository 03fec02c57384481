import { Signal } from '@lumino/signaling';
import { beforeEach, describe, expect, it } from 'vitest';
import { HubModel } from '../src/model/hub';
import type { KernelState } from '../src/model/hub_messages';
import { belowMagic, type Edit, goesByItself, runsOnRanks, toggleMagic, withRanks } from '../src/model/magic';
import type { NotebookPanel } from '../src/notebook/panels';
import { NotebookMode } from '../src/notebook/whole_notebook';
import table from '../schema/whole_notebook.fixture.json';
import { settled } from './fake_server';

const edited = (source: string, edit: Edit | null): string =>
  edit === null ? source : source.slice(0, edit.start) + edit.text + source.slice(edit.end);

describe('a cell of a notebook that runs on ranks as a whole', () => {
  it.each(table)('goes there as the kernel has it: $code', ({ code, goes }) => {
    expect(goesByItself(code)).toBe(goes);
    expect(runsOnRanks(code, false)).toBe(code.startsWith('%%distributed'));
  });

  it.each([
    ['a = 1', '%%local\na = 1'],
    ['%%local\na = 1', 'a = 1'],
    ['\n%%local \na = 1', '\na = 1'],
    ['%%distributed -r 0\na', '%%local\na'],
    ['%%capture\na', '%%distributed\n%%capture\na'],
  ])('is switched: %j', (source, changed) => {
    expect(edited(source, toggleMagic(source, true))).toBe(changed);
  });

  it('takes ranks of its own, and leaves them again', () => {
    expect(edited('a', withRanks('a', '0-1', true))).toBe('%%distributed -r 0-1\na');
    expect(withRanks('a', '', true)).toBeNull();
    expect(withRanks('%%local\na', '0', true)).toBeNull();
  });

  it('asks rank 0 for all of its names', () => {
    expect(belowMagic('\nab.c', 5, true)).toEqual({ code: '\nab.c', cursor: 5, skipped: 0 });
    expect(belowMagic('%%local\nab.c', 9, true)).toBeNull();
  });
});

describe('the switch', () => {
  it.each([
    // It stands there for nothing: IPython knows a magic in the first line only.
    ['# why\n\n%%distributed -r 0\na', '%%distributed -r 0\n# why\n\na'],
    ['# why\n%%distributed', '%%distributed\n# why\n'],
    ['# why\na\n%%distributed', '%%distributed\n# why\na\n%%distributed'],
    ['%%local\na', '%%distributed\na'],
  ])('gives a cell the magic where it works: %j', (source, changed) => {
    expect(edited(source, toggleMagic(source))).toBe(changed);
  });
});

const SAVED = { auto: true };
const ON = '%load_ext jupyter_ddl\n%ddl auto on';
const OFF = '%load_ext jupyter_ddl\n%ddl auto off';

class FakeKernel {
  readonly id = 'k';
  readonly executed: string[] = [];
  private readonly replies: ((content: object) => void)[] = [];

  requestExecute({ code }: { code: string }): { done: Promise<unknown> } {
    this.executed.push(code);
    return { done: new Promise((resolve) => this.replies.push((content) => resolve({ content }))) };
  }

  async reply(content: object): Promise<void> {
    this.replies.shift()!(content);
    await settled();
  }
}

describe('the mode of a notebook', () => {
  let hub: HubModel;
  let kernel: FakeKernel;
  let metadata: Record<string, unknown>;
  let failed: string[];
  let mode: NotebookMode;
  const kernelChanged = new Signal<object, { oldValue: unknown; newValue: unknown }>({});
  const statusChanged = new Signal<object, string>({});

  async function open(saved: object | null): Promise<void> {
    metadata = saved === null ? {} : { jupyter_ddl: saved };
    const model = {
      getMetadata: (key: string) => metadata[key],
      setMetadata: (key: string, value: unknown) => void (metadata[key] = value),
      deleteMetadata: (key: string) => void delete metadata[key],
      metadataChanged: new Signal({}),
    };
    const context = { isReady: true, ready: Promise.resolve() };
    const sessionContext = { session: { kernel }, kernelChanged, statusChanged };
    const panel = { content: { model }, context, sessionContext, disposed: new Signal({}) } as unknown as NotebookPanel;
    mode = new NotebookMode(panel, hub, (text) => failed.push(text));
    await settled();
  }

  function report(isWhole: boolean): void {
    const state: KernelState = { type: 'kernel_state', kernel: 'k', pid: 1, cluster: null, run: null, fault: null, whole_notebook: isWhole };
    hub.handle(state);
  }

  beforeEach(() => {
    Signal.clearData(kernelChanged.sender);
    Signal.clearData(statusChanged.sender);
    hub = new HubModel();
    kernel = new FakeKernel();
    failed = [];
  });

  it('is told to a kernel when the notebook is opened, and to each new one before its first cell', async () => {
    await open(SAVED);
    expect(kernel.executed).toEqual([ON]);
    expect(mode.isWhole).toBe(true);
    await kernel.reply({ status: 'ok' });
    report(true);
    for (const status of ['restarting', 'restarting', 'starting', 'idle']) {
      statusChanged.emit(status);
    }
    await settled();
    // JupyterLab says at the end of a restart that the same kernel is there.
    kernelChanged.emit({ oldValue: kernel, newValue: kernel });
    expect(kernel.executed).toEqual([ON, ON]);
    kernelChanged.emit({ oldValue: null, newValue: kernel });
    expect(kernel.executed).toEqual([ON, ON, ON]);
    // One that died is not there to be told before it is idle again.
    await kernel.reply({ status: 'ok' });
    await kernel.reply({ status: 'ok' });
    report(true);
    statusChanged.emit('autorestarting');
    await settled();
    expect(kernel.executed).toHaveLength(3);
    statusChanged.emit('idle');
    expect(kernel.executed).toHaveLength(4);
  });

  it('is not told where none is saved', async () => {
    await open(null);
    kernelChanged.emit({ oldValue: null, newValue: kernel });
    expect(kernel.executed).toEqual([]);
    expect(mode.isWhole).toBe(false);
  });

  it('is chosen: it is saved beside what else is there, and shown before the kernel has done it', async () => {
    await open({ other: 1 });
    mode.choose(true);
    expect(metadata).toEqual({ jupyter_ddl: { other: 1, auto: true } });
    report(false);
    expect(mode.isWhole).toBe(true);
    report(true);
    mode.choose(false);
    expect(metadata).toEqual({ jupyter_ddl: { other: 1 } });
    expect(mode.isWhole).toBe(false);
    expect(kernel.executed).toEqual([ON, OFF]);
    mode.choose(true);
    mode.choose(false);
    delete (metadata['jupyter_ddl'] as Record<string, unknown>)['other'];
    mode.choose(false);
    expect(metadata).toEqual({});
  });

  it('is what a cell has made it, though another one is saved', async () => {
    await open(SAVED);
    await kernel.reply({ status: 'ok' });
    report(true);
    report(false);
    expect(mode.isWhole).toBe(false);
    expect(metadata).toEqual({ jupyter_ddl: SAVED });
  });

  it('is off, with the reason, where the kernel cannot', async () => {
    await open(SAVED);
    await kernel.reply({ status: 'error', ename: 'ModuleNotFoundError', evalue: "No module named 'jupyter_ddl'" });
    expect(failed).toEqual(["ModuleNotFoundError: No module named 'jupyter_ddl'"]);
    expect(mode.isWhole).toBe(false);
  });

  it('is told again where a failed cell took what waited behind it', async () => {
    await open(SAVED);
    await kernel.reply({ status: 'aborted' });
    expect(kernel.executed).toEqual([ON, ON]);
    await kernel.reply({ status: 'ok' });
    expect(kernel.executed).toHaveLength(2);
    expect(failed).toEqual([]);
  });
});
