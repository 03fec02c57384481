// What some runs have that others have not, as rows of a table. No DOM.
import type { Scalar } from './run_facts';
import type { RunDetails } from './server';

export type Values = readonly (Scalar | undefined)[];

export interface Row {
  readonly name: string;
  /** A run's each; undefined where it has none. */
  readonly values: Values;
  readonly differs: boolean;
  /** A figure: the others are shown with their change from the first. */
  readonly isFigure: boolean;
}

export interface Section {
  readonly kind: 'run' | 'parameters' | 'options' | 'versions' | 'figures';
  readonly rows: readonly Row[];
}

/** Return the sections, the rows of each in the order in which the runs name them.
 *
 * @param details of the runs; null of a run that is not known.
 * @param figures of each run by name, as they are at its end.
 */
export function sectionsOf(details: readonly (RunDetails | null)[], figures: readonly Readonly<Record<string, number | null>>[]): Section[] {
  const of = (pick: (one: RunDetails) => Readonly<Record<string, Scalar>>): Readonly<Record<string, Scalar>>[] =>
    details.map((one) => (one === null ? {} : pick(one)));
  return [
    { kind: 'run', rows: rowsOf(of(runFacts)) },
    { kind: 'parameters', rows: rowsOf(of(({ facts }) => facts.parameters)) },
    { kind: 'figures', rows: rowsOf(figures.map((one) => known<Scalar>(one)), true) },
    { kind: 'options', rows: rowsOf(of(({ facts }) => facts.options)) },
    { kind: 'versions', rows: rowsOf(of(({ facts }) => facts.versions)) },
  ];
}

/** Return how many rows are the same in all runs, which a table of differences leaves out. */
export function sameCount(sections: readonly Section[]): number {
  return sections.reduce((sum, { rows }) => sum + rows.filter(({ differs }) => !differs).length, 0);
}

function runFacts({ record, facts }: RunDetails): Record<string, Scalar> {
  return known<Scalar>({
    state: record.state,
    notebook: record.notebook,
    script: facts.script,
    'first line': facts.first_line,
    'git commit': facts.git_commit,
    tags: record.tags.length === 0 ? null : record.tags.join(', '),
    ranks: record.ranks.length,
    world_size: record.world_size,
    hosts: counted(facts.hosts),
    devices: counted(facts.devices),
    'computes on': record.computes_on,
    model: record.model,
    note: facts.note,
  });
}

/** Return what a list has, and how often: `2 × GPU, CPU`; null of nothing. Of devices the number in front is left out. */
function counted(values: readonly string[]): string | null {
  const counts = new Map<string, number>();
  for (const value of values) {
    const kind = /^GPU \d+ \((.+)\)$/.exec(value)?.[1] ?? value;
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return counts.size === 0 ? null : [...counts].map(([value, count]) => (count === 1 ? value : `${count} × ${value}`)).join(', ');
}

function rowsOf(runs: readonly Readonly<Record<string, Scalar>>[], isFigure = false): Row[] {
  const names = [...new Set(runs.flatMap((one) => Object.keys(one)))];
  return names.map((name) => {
    const values = runs.map((one) => one[name]);
    return { name, values, isFigure, differs: values.some((value) => !Object.is(value, values[0])) };
  });
}

/** Leave out what is not known. */
function known<T extends Scalar>(values: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
}
