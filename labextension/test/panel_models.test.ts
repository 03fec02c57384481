import { describe, expect, it } from 'vitest';
import fixture from '../schema/events.fixture.json';
import type { ClusterState, KernelState } from '../src/model/hub_messages';
import { attachLine, withoutKernel } from '../src/model/kept';
import { type LinesPage, type LinesPlace, type LogLine, LogWindow } from '../src/model/log_window';
import { startOf } from '../src/model/no_ranks';
import { belowMagic, type Edit, readMagic, toggleMagic, withRanks } from '../src/model/magic';
import { parseEvent } from '../src/model/parse';
import { rankRows } from '../src/model/rank_rows';
import { RunModel } from '../src/model/run';
import type { Place } from '../src/model/place';
import { recordOf, runPageOf } from '../src/model/runs';
import { compactRanks, groupStacks, stacksOf } from '../src/model/stacks';
import { timeLeft } from '../src/model/wall_time';
import { exportOf, NOWHERE, plainStart, planStart, proposeName, type StartFields } from '../src/model/start';
import { ENGLISH } from '../src/model/words';

const GPUS = [0, 1].map((index) => ({ index, name: 'H200', uuid: `GPU-${index}`, device: String(index), total_bytes: 2 ** 37, free_bytes: 2 ** 36 }));
const EMPTY: StartFields = {
  ...{ place: null, ranks: '', nodes: '', perNode: '', time: '', partition: '', threads: '', name: '' },
  ...{ gpus: null, oversubscribe: false, keep: false },
};
const NO_PLACE: Place = {
  ...{ profile: null, launcher: 'slurm', title: 'Slurm job', description: '', ranks: null, nodes: null, ntasks_per_node: null },
  ...{ time: null, partition: null, most_ranks: null, most_nodes: null, most_time: null },
};
const A100: Place = { ...NO_PLACE, profile: 'a100', title: 'a100', nodes: 2, ntasks_per_node: 4, most_nodes: 4, most_ranks: 12, most_time: '4:00' };

describe('the wall time', () => {
  it.each([
    [1000 + 2580, '43 min', false],
    [1000 + 7500, '2 h 05 min', false],
    [1000 + 600, '10 min', true],
    [1000 + 59.4, '59 s', true],
    [900, '0 s', true],
  ])('is short: %d', (endsAtS, text, isSoon) => {
    expect(timeLeft(endsAtS, 1000)).toEqual({ text, isSoon });
  });

  it('is none without a job', () => {
    expect(timeLeft(null, 1000)).toBeNull();
  });
});

describe('the start form', () => {
  it.each([
    [EMPTY, '%ddl start'],
    [{ ...EMPTY, ranks: ' 2 ', threads: '4', name: 'a.b-c' }, '%ddl start -n 2 --threads 4 --name a.b-c'],
    [{ ...EMPTY, gpus: ['1'] }, '%ddl start --gpus 1'],
    [{ ...EMPTY, gpus: ['0', 'MIG-7b'] }, '%ddl start --gpus 0,MIG-7b'],
    [{ ...EMPTY, gpus: [] }, '%ddl start --gpus none'],
    [{ ...EMPTY, ranks: '4', oversubscribe: true }, '%ddl start -n 4 --oversubscribe'],
    [{ ...EMPTY, ranks: '9', gpus: [] }, '%ddl start -n 9 --gpus none'],
    [{ ...EMPTY, keep: true }, '%ddl start --keep'],
  ])('comes to a line: %j', (fields, line) => {
    expect(planStart(fields, GPUS, NOWHERE, ENGLISH)).toEqual({ errors: {}, warning: '', line });
  });

  it.each([
    [{ ranks: '0' }, 'ranks', 'Ranks must be a whole number of at least 1.'],
    [{ ranks: '2.5' }, 'ranks', 'Ranks must be a whole number of at least 1.'],
    [{ ranks: '3' }, 'ranks', 'Ranks must not outnumber GPUs. Write 2 or less, or let ranks share a GPU.'],
    [{ threads: 'x' }, 'threads', 'Threads must be a whole number of at least 1.'],
    [{ name: '.a' }, 'name', 'A name has 1 to 64 letters, digits, dots, underscores or hyphens, with no dot in front.'],
    [{ name: 'a; import os' }, 'name', 'A name has 1 to 64 letters, digits, dots, underscores or hyphens, with no dot in front.'],
  ])('says what is wrong: %j', (more, field, text) => {
    expect(planStart({ ...EMPTY, ...more }, GPUS, NOWHERE, ENGLISH)).toEqual({ errors: { [field]: text }, warning: '', line: null });
  });

  it.each([
    [NO_PLACE, {}, '%ddl submit'],
    [NO_PLACE, { nodes: ' 2 ', perNode: '4', time: '1:30', partition: 'gpu,long', name: 'x', keep: true }, '%ddl submit -N 2 --ntasks-per-node 4 --time 1:30 -p gpu,long --name x --keep'],
    // What is of this host only stays out of a job's line.
    [A100, { ranks: '99', gpus: [], threads: '3', oversubscribe: true, nodes: '3' }, '%ddl submit --profile a100 -N 3'],
    [{ ...A100, launcher: 'hosts' as const }, { ranks: '9', nodes: '7', gpus: ['0'], threads: '2' }, '%ddl start --profile a100 -n 9 --threads 2'],
    [{ ...A100, launcher: 'local' as const }, { ranks: '2', gpus: ['0', '1'] }, '%ddl start --profile a100 -n 2 --gpus 0,1'],
  ])('comes to a line for a place: %j %j', (place, more, line) => {
    expect(planStart({ ...EMPTY, place, ...more }, GPUS, NOWHERE, ENGLISH)).toEqual({ errors: {}, warning: '', line });
  });

  it.each([
    [{ nodes: '0' }, 'nodes', 'Nodes must be a whole number of at least 1.'],
    [{ nodes: '5', perNode: '2' }, 'nodes', 'a100 allows at most 4 nodes.'],
    [{ perNode: 'x' }, 'perNode', 'Ranks per node must be a whole number of at least 1.'],
    // The profile's two nodes.
    [{ perNode: '7' }, 'perNode', 'a100 allows at most 12 ranks.'],
    [{ nodes: '4' }, 'perNode', 'a100 allows at most 12 ranks.'],
    [{ time: '90' }, 'time', 'A time is written as hours:minutes, e.g. 1:30.'],
    [{ time: '4:00:01' }, 'time', 'a100 allows at most a time of 4:00.'],
    [{ time: '1-00:00' }, 'time', 'a100 allows at most a time of 4:00.'],
    [{ partition: '-x; ls' }, 'partition', 'A partition has letters, digits, dots, underscores or hyphens.'],
  ])('says what is wrong with a job: %j', (more, field, text) => {
    expect(planStart({ ...EMPTY, place: A100, ...more }, GPUS, NOWHERE, ENGLISH)).toEqual({ errors: { [field]: text }, warning: '', line: null });
  });

  it('keeps to the ranks that a profile of hosts allows', () => {
    const place: Place = { ...A100, launcher: 'hosts' };
    expect(planStart({ ...EMPTY, place, ranks: '13' }, GPUS, NOWHERE, ENGLISH).errors).toEqual({ ranks: 'a100 allows at most 12 ranks.' });
  });

  it('asks for a job of the notebook', () => {
    const nothing = { profile: null, ranks: null, nodes: null, ntasks_per_node: null, time: null, partition: null };
    expect(exportOf({ ...EMPTY, ranks: ' 4 ', time: '1:00' })).toEqual({ ...nothing, kind: 'script', ranks: 4 });
    expect(exportOf({ ...EMPTY, place: { ...A100, launcher: 'hosts' }, nodes: '2' })).toEqual({ ...nothing, profile: 'a100', kind: 'script' });
    const fields = { ...EMPTY, place: { ...A100, launcher: 'pbs' as const }, ranks: '9', nodes: '2', perNode: '3', time: ' 1:00', partition: 'gpu' };
    const job = { profile: 'a100', ranks: null, nodes: 2, ntasks_per_node: 3, time: '1:00', partition: 'gpu' };
    expect(exportOf(fields)).toEqual({ ...job, kind: 'pbs' });
  });

  const taken = new Map([
    ['default', 'A.ipynb'],
    ['b', 'no notebook: it was kept'],
  ]);

  it('proposes a name that no cluster has, and says where one that is taken runs', () => {
    const around = { ...NOWHERE, taken, proposed: proposeName(taken, 'my folder/second try.ipynb') };
    expect(planStart(EMPTY, GPUS, around, ENGLISH).line).toBe('%ddl start --name second-try');
    expect(planStart({ ...EMPTY, name: 'c' }, GPUS, around, ENGLISH).line).toBe('%ddl start --name c');
    expect(planStart({ ...EMPTY, name: ' b ' }, GPUS, around, ENGLISH)).toMatchObject({
      line: null,
      errors: { name: 'b runs already (no notebook: it was kept). Write another name, or run %ddl attach b to use its ranks.' },
    });
  });

  it.each([
    [[], 'b.ipynb', 'default'],
    [['default'], 'b.ipynb', 'b'],
    [['default', 'b'], 'b.ipynb', 'b-2'],
    [['default', 'b', 'b-2'], 'b.ipynb', 'b-3'],
    [['default'], null, 'default-2'],
    [['default'], 'x/日本.ipynb', 'default-2'],
    [['default'], '..ipynb', 'default-2'],
    [['default'], `${'n'.repeat(80)}.ipynb`, 'n'.repeat(60)],
  ])('of names %j proposes in %s %s', (names, notebook, proposed) => {
    expect(proposeName(new Map(names.map((name) => [name, 'A.ipynb'])), notebook)).toBe(proposed);
  });

  it.each([
    ['2', 2, 64, ''],
    ['', 2, 64, ''],
    ['3', 2, 64, '3 ranks share 2 cores, and take turns on them.'],
    ['2', 1, 64, '2 ranks share 1 core, and take turns on it.'],
    ['99999', 2, 64, 'The ranks take about 79,999 GiB of memory, before any model. Free are 64 GiB.'],
  ])('warns of what %s ranks will want for', (ranks, cores, gib, warning) => {
    const host = { cores, ranks: 2, free_bytes: gib * 2 ** 30 };
    expect(planStart({ ...EMPTY, ranks }, [], { ...NOWHERE, host }, ENGLISH).warning).toBe(warning);
  });
});

/** Return a text as it is after an edit. */
function edited(source: string, edit: Edit | null): string {
  return edit === null ? source : source.slice(0, edit.start) + edit.text + source.slice(edit.end);
}

describe('the magic of a cell', () => {
  it.each([
    ['a = 1\nb', '%%distributed\na = 1\nb'],
    ['', '%%distributed\n'],
    ['%%distributed --auto\na\nb', 'a\nb'],
    ['%%distributed', ''],
    // IPython leaves out empty lines above it.
    ['\n  \n%%distributed -r 0\na', '\n  \na'],
    ['\n\na', '%%distributed\n\n\na'],
  ])('is put there and taken away: %j', (source, changed) => {
    expect(edited(source, toggleMagic(source))).toBe(changed);
  });

  it.each([
    ['%%distributed --ranks=0-1 --auto\n', '--ranks=0-1 --auto', '0-1'],
    ['\n\t\n%%distributed -r 1\na', '-r 1', '1'],
    ['\n%%distributed\t\na', '', null],
    ['  %%distributed\n  a', '', null],
  ])('tells the ranks: %j', (source, options, ranks) => {
    expect(readMagic(source)).toMatchObject({ options, ranks });
  });

  it.each(['x\n%%distributed', '%%distributedly', '%%distributed-x', '%%distributed\t-r 0', '# %%distributed', '\n\n', ''])('is not there: %j', (source) => {
    expect(readMagic(source)).toBeNull();
  });

  it.each([
    ['%%distributed --auto -r 1\na', '0,2', '%%distributed -r 0,2 --auto\na'],
    ['%%distributed -r 1\na', '', '%%distributed\na'],
    ['\n\n%%distributed\na\nb', '1', '\n\n%%distributed -r 1\na\nb'],
    ['a', '1', 'a'],
  ])('takes other ranks: %j', (source, ranks, changed) => {
    expect(edited(source, withRanks(source, ranks))).toBe(changed);
  });

  it('is not what rank 0 is asked of', () => {
    expect(belowMagic('%%distributed\nab.c', 18)).toEqual({ code: 'ab.c', cursor: 4, skipped: 14 });
    expect(belowMagic('\n%%distributed\nab.c', 19)).toEqual({ code: 'ab.c', cursor: 4, skipped: 15 });
    expect(belowMagic('%%distributed\nab', 5)).toBeNull();
    expect(belowMagic('\n%%distributed\nab', 5)).toBeNull();
    expect(belowMagic('%%distributed', 13)).toBeNull();
  });
});

describe('a cell that wanted ranks', () => {
  const error = (ename: string, evalue: string): object => ({ 'application/vnd.jupyter.error': { ename, evalue, traceback: [] } });
  it.each([
    [error('NoCluster', 'Ranks must run before a cell can go to them. Received: no cluster.'), '%ddl start'],
    [error('NoCluster', "Ranks must run. Received: the cluster 'a' was stopped by --idle-stop 30m, after 30 min 0 s without a run; what its cells defined is lost. %ddl restart starts it again."), '%ddl restart'],
    [error('NoCluster', "Ranks must run. Received: the cluster 'a' was stopped by --idle-stop 30m, after 30 min 0 s without a run; what its cells defined is kept. %ddl restart starts it again, with its variables."), '%ddl restart'],
    [error('NoCluster', "Ranks must run. Received: the cluster 'a' was stopped. Start one with %ddl start."), null],
    [error('UsageError', 'Cell magic `%%distributed` not found.'), '%ddl start'],
    [{ 'application/vnd.jupyter.stderr': 'UsageError: Cell magic `%%distributed` not found.\n' }, '%ddl start'],
    [error('NameError', "name 'rank' is not defined"), null],
    [{ 'application/vnd.jupyter.stdout': 'Cell magic `%%distributed` not found.' }, null],
    [{ 'text/plain': '1' }, null],
  ])('shows in what stands under it: %j', (data, line) => {
    expect(startOf(data as Record<string, unknown>)).toBe(line);
  });

  it('gets ranks whose name is free', () => {
    expect(plainStart(new Set(), 'a.ipynb')).toBe('%ddl start');
    expect(plainStart(new Set(['default']), 'a.ipynb')).toBe('%ddl start --name a');
  });
});

describe('ranks in the panel', () => {
  const rank = { rank: 0, local_rank: 0, host: 'h', pid: 7, device: 'CPU', threads: 1, state: 'running' } as const;
  const cluster: ClusterState = {
    ...{ name: 'default', state: 'running', note: '', step: null, world_size: 3, ends_at_s: null, idle_ends_at_s: null, keeps_variables: false, job: null, held: null },
    ranks: [rank, { ...rank, rank: 1, state: 'lost' }, { ...rank, rank: 2, state: 'silent' }],
  };

  it('are as the kernel says without a run', () => {
    expect(rankRows(cluster, null, ENGLISH).map(({ standing }) => standing)).toEqual(['running', 'lost', 'silent']);
    const ended = { ...cluster, ranks: [{ ...rank, state: 'ended' as const }] };
    expect(rankRows(ended, null, ENGLISH)[0]!.standing).toBe('ended');
  });

  it('have a run’s figures while it goes on, and not after it', () => {
    const model = new RunModel();
    const metrics = fixture.find((example) => example.type === 'metrics' && example.gpu_pct != null);
    model.handle(parseEvent({ type: 'run_started', run: 'r', ranks: [0], world_size: 3, at_s: 0 })!);
    model.handle(parseEvent({ ...metrics, rank: 0 })!);
    const [row] = rankRows(cluster, model, ENGLISH);
    expect(row).toMatchObject({ standing: 'training', samplesPerS: 1000, gpuPct: 87.5, memoryBytes: 2 ** 33 });
    model.handle({ type: 'straggler', run: 'r', rank: 0, at_s: 3, is_straggler: true, ratio: 1.5, spends_on: 'input' });
    expect(rankRows(cluster, model, ENGLISH)[0]).toMatchObject({ standing: 'straggler', problem: '×1.5', slowIn: 'slower in input' });
    model.handle({ type: 'run_finished', run: 'r', outcome: 'finished', seconds: 1, fault: null });
    const ready = { ...cluster, ranks: [{ ...rank, state: 'ready' as const }] };
    expect(rankRows(ready, model, ENGLISH)[0]).toMatchObject({ standing: 'ready', samplesPerS: null, gpuPct: null });
  });
});

describe('stacks', () => {
  const frames = (line: number): unknown[][] => [
    ['/v/lib/python3.11/site-packages/IPython/x.py', 1, 'run', ''],
    ['/tmp/ipykernel_3/12.py', line, '<module>', 'hvd.allreduce(x)'],
    ['/v/lib/python3.11/site-packages/horovod/mpi_ops.py', 9, 'allreduce', ''],
  ];
  const at = (rank: number, threads: readonly object[], note = ''): object => ({ type: 'rank_stacks', look: 'l', rank, host: `h${rank % 2}`, threads, note });
  const main = (line: number): object[] => [{ name: 'MainThread', frames: frames(line) }];

  it('of the same place are one, from the cell on', () => {
    const places = groupStacks(stacksOf({ ranks: [at(3, main(2)), at(0, main(2)), at(1, main(5)), at(2, [], 'it does not answer')] }));
    expect(places.map(({ ranks, hosts }) => [compactRanks(ranks), hosts])).toEqual([
      ['0, 3', ['h0', 'h1']],
      ['1', ['h1']],
      ['2', ['h0']],
    ]);
    expect(places[0]!.frames.map(({ file, isCell, isRunning }) => [file, isCell, isRunning])).toEqual([
      ['/tmp/ipykernel_3/12.py', true, true],
      ['horovod/mpi_ops.py', false, false],
    ]);
    expect(places[2]!.note).toBe('it does not answer');
  });

  it('of ranks that wait for a cell are idle', () => {
    const idle = [{ name: 'MainThread', frames: [['/usr/lib/python3.11/selectors.py', 468, 'select', '']] }];
    expect(groupStacks(stacksOf({ ranks: [at(0, idle), at(1, idle)] }))).toMatchObject([{ ranks: [0, 1], isIdle: true, frames: [] }]);
    expect(stacksOf({ ranks: [{ rank: 'x' }] })).toEqual([]);
  });
});

describe('LogWindow', () => {
  const PAGE = 1000;
  // Read as the server does: pages of lines, whose places are their numbers.
  const reading = (count: number) => async (place: LinesPlace): Promise<LinesPage> => {
    const isBackward = place === 'end' || 'before' in place;
    const at = place === 'end' ? count : 'before' in place ? Number(place.before) : 'share' in place ? Math.floor(place.share * count) : afterOf(place.after);
    const [from, to] = isBackward ? [Math.max(0, at - PAGE), at] : [at, Math.min(count, at + PAGE)];
    const lines = Array.from({ length: to - from }, (_, index) => lineOf(from + index));
    const ends = { atStart: isBackward && from === 0, atEnd: place === 'end' || (!isBackward && to === count) };
    return { lines, begin: String(from), next: String(to), ...ends, unfinished: [], beginShare: from / count, nextShare: to / count, bytes: count * 20, timed: null };
  };
  const afterOf = (text: string): number => (text === 'start' ? 0 : text.endsWith('+') ? Number(text.slice(0, -1)) + 1 : Number(text));
  const lineOf = (at: number): LogLine => ({ rank: 0, number: at + 1, text: `line ${at}`, place: String(at), atUs: 0 });

  it('opens a log of 100 million lines at its end, and holds few of them', async () => {
    const log = new LogWindow(reading(1e8));
    await log.jump('end');
    expect([log.isAtEnd, log.line(log.length - 1)?.number, log.shareAt(log.length)]).toEqual([true, 1e8, 1]);
    for (let at = 0; at < 40; at++) {
      expect(await log.backward()).toBe(PAGE);
    }
    expect(log.length).toBeLessThan(13_000);
    expect(log.isAtEnd).toBe(false);
  });

  it('has every line once, in order, both ways, whatever went meanwhile', async () => {
    const log = new LogWindow(reading(60_000));
    await log.jump({ share: 0.5 });
    expect(log.line(0)?.text).toBe('line 30000');
    expect(log.shareAt(0)).toBe(0.5);
    const check = (): void => {
      const first = log.line(0)!.number!;
      for (let at = 0; at < log.length; at++) {
        expect(log.line(at)?.number).toBe(first + at);
      }
    };
    let gone = 0;
    for (let turn = 0; turn < 20; turn++) {
      gone += (await log.forward()) ?? 0;
    }
    check();
    expect(gone).toBeGreaterThan(5_000);
    expect(log.line(0)?.number).toBe(30_001 + gone);
    while ((await log.backward()) !== null);
    check();
    expect([log.isAtStart, log.line(0)?.number]).toEqual([true, 1]);
    while ((await log.forward()) !== null);
    check();
    expect([log.isAtEnd, log.line(log.length - 1)?.number]).toEqual([true, 60_000]);
  });

  it('shows lines that are not finished yet, until they are', async () => {
    const half = (text: string): LogLine => ({ rank: 0, number: null, text, place: '', atUs: 0 });
    const page = (lines: LogLine[], unfinished: LogLine[]): LinesPage => ({
      ...{ lines, unfinished, begin: '0', next: '1', atStart: true, atEnd: true, beginShare: 0, nextShare: 1, bytes: 5, timed: null },
    });
    const pages = [page([lineOf(0)], [half('hal')]), page([], [half('hal')]), page([], [half('half')]), page([lineOf(1)], [])];
    const log = new LogWindow(async () => pages.shift()!);
    await log.jump('end');
    expect([log.length, log.line(1)?.text]).toEqual([2, 'hal']);
    expect(await log.forward()).toBeNull();
    expect([await log.forward(), log.line(1)?.text]).toEqual([0, 'half']);
    expect([await log.forward(), log.length, log.line(1)?.text]).toEqual([0, 2, 'line 1']);
  });

  it('holds lines above the place of a jump, though what it overtook is still being read', async () => {
    const read = reading(60_000);
    let goOn = (): void => undefined;
    let isHeld = false;
    const log = new LogWindow(async (place) => {
      if (isHeld) {
        isHeld = false;
        await new Promise<void>((resolve) => (goOn = resolve));
      }
      return read(place);
    });
    await log.jump('end');
    isHeld = true;
    const overtaken = log.backward();
    await log.jump({ share: 0.5 });
    expect(await log.backward()).toBe(PAGE);
    goOn();
    expect(await overtaken).toBeNull();
    expect([log.line(0)?.text, log.length]).toEqual(['line 29000', 2 * PAGE]);
    expect(await log.forward()).toBe(0);
  });

  it('a later jump overtakes an earlier one', async () => {
    const waiting: (() => void)[] = [];
    const read = reading(100_000);
    const log = new LogWindow(async (place) => {
      await new Promise<void>((resolve) => waiting.push(resolve));
      return read(place);
    });
    const first = log.jump({ after: '0' });
    const second = log.jump({ after: '50000' });
    waiting.forEach((go) => go());
    expect(await first).toBe(false);
    expect(await second).toBe(true);
    expect(log.line(0)?.text).toBe('line 50000');
  });
});

describe('runs on disk', () => {
  it('are what the server says, where it says it', () => {
    const record = { run: 'r', start_s: 5, ranks: [0, 1], world_size: 2, state: 'failed', loss: 'NaN' };
    expect(recordOf(record)).toMatchObject({ run: 'r', loss: NaN, seconds: null, samples_per_s: null });
    expect(runPageOf({ runs: [record, {}], more: true })).toEqual({ runs: [recordOf(record)], more: true, next: null });
    expect(() => runPageOf([])).toThrow('A list of runs must have runs.');
  });
});

describe('clusters with no kernel', () => {
  const kept = ['a', 'b'].map((name) => ({ name, world_size: 2, devices: [], start_s: 1 }));
  const cluster = { name: 'b', state: 'idle', note: '', step: null, world_size: 2, ranks: [], ends_at_s: null, idle_ends_at_s: null, keeps_variables: false, job: null, held: null } as const;
  const kernel: KernelState = { type: 'kernel_state', kernel: 'k', pid: 1, cluster, run: null, fault: null, whole_notebook: false };

  it('are those that no kernel has attached to', () => {
    expect(withoutKernel(kept, []).map(({ name }) => name)).toEqual(['a', 'b']);
    expect(withoutKernel(kept, [kernel, { ...kernel, cluster: null }]).map(attachLine)).toEqual(['%ddl attach a']);
  });
});
