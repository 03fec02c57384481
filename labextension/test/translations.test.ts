// The catalogues say what models say, with the plural's forms of their language.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Figures } from '../src/model/figures';
import { headingParts } from '../src/model/host_groups';
import type { ClusterState } from '../src/model/hub_messages';
import { hostText } from '../src/model/links';
import type { Place } from '../src/model/place';
import { rankRows } from '../src/model/rank_rows';
import { RunModel } from '../src/model/run';
import { type HostRoom, NOWHERE, planStart, type StartFields } from '../src/model/start';
import { progressText, type TrainingProgress } from '../src/model/training_progress';
import type { Words } from '../src/model/words';

const LOCALES = join(import.meta.dirname, '..', '..', 'jupyter_ddl', 'server', 'locale');
const EMPTY: StartFields = {
  ...{ place: null, ranks: '', nodes: '', perNode: '', time: '', partition: '', threads: '', name: '' },
  ...{ gpus: null, oversubscribe: false, keep: false },
};
const PLACE: Place = {
  ...{ profile: 'a100', launcher: 'slurm', title: 'a100', description: '', ranks: null, nodes: 2, ntasks_per_node: 4 },
  ...{ time: null, partition: null, most_ranks: 12, most_nodes: 4, most_time: '4:00' },
};
const HOST: HostRoom = { cores: 2, ranks: 2, free_bytes: 2 ** 36 };

/** Return what says a catalogue's messages, as JupyterLab's bundle does. */
function wordsOf(locale: string, formOf: (count: number) => number): Words {
  const path = join(LOCALES, locale, 'LC_MESSAGES', 'jupyter_ddl.json');
  const said = JSON.parse(readFileSync(path, 'utf8')) as Readonly<Record<string, readonly string[]>>;
  const fill = (message: string, form: number, values: readonly unknown[]): string =>
    (said[message]?.[form] ?? `not in ${locale}: ${message}`).replace(/%(\d)/g, (_, at: string) => String(values[Number(at) - 1]));
  return {
    __: (message, ...values) => fill(message, 0, values),
    _n: (one, _, count, ...values) => fill(one, formOf(count), [count, ...values]),
  };
}

const GERMAN = wordsOf('de_DE', (count) => (count === 1 ? 0 : 1));
const CZECH = wordsOf('cs_CZ', (count) => (count === 1 ? 0 : count < 5 ? 1 : 2));

describe('the faults of the start form', () => {
  it.each([
    [GERMAN, { ranks: '0' }, 'Ränge muss eine ganze Zahl ab 1 sein.'],
    [GERMAN, { name: '.a' }, 'Ein Name hat 1 bis 64 Buchstaben, Ziffern, Punkte, Unterstriche oder Bindestriche, und vorn keinen Punkt.'],
    [GERMAN, { place: PLACE, nodes: '5', perNode: '1' }, 'a100 erlaubt höchstens 4 Knoten.'],
    [GERMAN, { place: { ...PLACE, most_ranks: 1 } }, 'a100 erlaubt höchstens 1 Rang.'],
    [GERMAN, { place: PLACE, time: '9:00' }, 'a100 erlaubt höchstens eine Zeit von 4:00.'],
    [CZECH, { threads: 'x' }, 'Vlákna musí být celé číslo, nejméně 1.'],
    [CZECH, { place: PLACE, nodes: '5', perNode: '1' }, 'a100 dovoluje nejvýše 4 uzly.'],
    [CZECH, { place: PLACE, perNode: '7' }, 'a100 dovoluje nejvýše 12 ranků.'],
  ])('are translated: %#', (words, typed, text) => {
    expect(Object.values(planStart({ ...EMPTY, ...typed }, [], NOWHERE, words).errors)).toEqual([text]);
  });

  it.each([
    [GERMAN, '3', '3 Ränge teilen sich 2 Kerne und wechseln sich darauf ab.'],
    [GERMAN, '99999', 'Die Ränge brauchen etwa 79,999 GiB Speicher, noch ohne ein Modell. Frei sind 64 GiB.'],
    [CZECH, '3', 'Ranky (3) sdílejí 2 jádra a střídají se na nich.'],
  ])('have warnings that are translated: %#', (words, ranks, text) => {
    expect(planStart({ ...EMPTY, ranks }, [], { ...NOWHERE, host: HOST }, words).warning).toBe(text);
  });

  it('name the place of a name that is taken', () => {
    const around = { ...NOWHERE, taken: new Map([['b', 'A.ipynb']]) };
    const { errors } = planStart({ ...EMPTY, name: 'b' }, [], around, GERMAN);
    expect(errors.name).toBe('b läuft bereits (A.ipynb). Schreiben Sie einen anderen Namen, oder führen Sie %ddl attach b aus, um dessen Ränge zu nutzen.');
  });
});

describe('what ranks do', () => {
  it('is translated in their list, in its headings and in the dashboard', () => {
    const model = new RunModel();
    model.handle({ type: 'run_started', run: 'r', ranks: [0], world_size: 1, at_s: 0 });
    model.handle({ type: 'straggler', run: 'r', rank: 0, at_s: 3, is_straggler: true, ratio: 1.6, spends_on: 'compute' });
    const ranks = [{ rank: 0, local_rank: 0, host: 'a', device: 'CPU', threads: 1, pid: 1, state: 'running' as const }];
    const cluster: ClusterState = { name: 'c', state: 'running', note: '', step: null, ends_at_s: null, idle_ends_at_s: null, keeps_variables: false, job: null, held: null, world_size: 1, ranks };
    expect([GERMAN, CZECH].map((words) => rankRows(cluster, model, words)[0]!.slowIn)).toEqual(['langsamer: Rechnen', 'pomalejší: výpočet']);
    expect(headingParts(3, '', '', 2, CZECH)).toEqual(['3 ranky', '2 chyby']);
    const sent = { network_received_bytes_per_s: 1e9, network_sent_bytes_per_s: 2e9 };
    expect(hostText({ ...new Figures(), ...sent } as Figures, GERMAN)).toBe('Netzwerk ↓1 GB/s ↑2 GB/s');
    expect(progressText({ epoch: 3, epochs: 40, leftS: 360 } as TrainingProgress, GERMAN)).toBe('Epoche 3 von 40, noch 6 min');
  });
});
