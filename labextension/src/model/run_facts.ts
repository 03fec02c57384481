// What a run's record holds beside its line in the list: parameters, options, versions, and where it ran. No DOM.
import { isRecord } from './parse';

export type Scalar = string | number | boolean | null;

export interface RunFacts {
  readonly parameters: Readonly<Record<string, Scalar>>;
  readonly options: Readonly<Record<string, Scalar>>;
  readonly versions: Readonly<Record<string, Scalar>>;
  /** By rank. */
  readonly devices: readonly string[];
  readonly hosts: readonly string[];
  readonly git_commit: string | null;
  readonly first_line: string | null;
  readonly script: string | null;
  readonly note: string | null;
}

export function factsOf(value: unknown): RunFacts {
  const found = isRecord(value) ? value : {};
  const text = (name: string): string | null => (typeof found[name] === 'string' ? found[name] : null);
  return {
    parameters: flat(found['parameters']),
    options: flat(found['options']),
    versions: flat(found['versions']),
    devices: byRank(found['devices']),
    hosts: byRank(found['hosts']),
    git_commit: text('git_commit'),
    first_line: text('first_line'),
    script: text('script'),
    note: text('note'),
  };
}

/** Return an object's values by their names; what is within another object has both names. */
function flat(value: unknown, prefix = ''): Record<string, Scalar> {
  if (!isRecord(value)) {
    return {};
  }
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, one]): [string, Scalar][] => {
      if (isRecord(one) && !Array.isArray(one)) {
        return Object.entries(flat(one, `${prefix}${name}.`));
      }
      const isScalar = one === null || ['string', 'number', 'boolean'].includes(typeof one);
      return [[prefix + name, isScalar ? (one as Scalar) : JSON.stringify(one)]];
    }),
  );
}

function byRank(value: unknown): string[] {
  const found = isRecord(value) ? Object.entries(value) : [];
  return found.sort(([a], [b]) => Number(a) - Number(b)).map(([, one]) => String(one));
}
