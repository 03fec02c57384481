// What the search field of runs says: values to choose runs by (`state:failed tag:paper`), and a text. No DOM.

export const FIELDS = ['state', 'notebook', 'tag', 'name', 'model'] as const;
export type FilterField = (typeof FIELDS)[number];

export interface RunFilter {
  readonly values: readonly (readonly [field: FilterField, value: string])[];
  /** What is in it besides: anything that is shown of a run has it. */
  readonly text: string;
}

/** What runs have: of each field its values, newest first, with how many runs have each. */
export type FieldValues = Readonly<Record<FilterField, readonly (readonly [value: string, runs: number])[]>>;

// A value with spaces is in quotes, which may not be closed yet.
const TOKEN = /(?:(state|notebook|tag|name|model):)?("[^"]*"?|\S+)/gi;
const LAST = /(?:^|\s)(?:(state|notebook|tag|name|model):)?("[^"]*|[^\s"]*)$/i;

export function filterOf(written: string): RunFilter {
  const values: [FilterField, string][] = [];
  const rest: string[] = [];
  for (const [token, field, value] of written.matchAll(TOKEN)) {
    if (field === undefined) {
      rest.push(token);
    } else if (bare(value!) !== '') {
      values.push([field.toLowerCase() as FilterField, bare(value!)]);
    }
  }
  return { values, text: rest.filter((token) => !isEmpty(token)).map(bare).join(' ') };
}

/** Names and values of an address; a name may be there more than once. */
export type Query = readonly (readonly [name: string, value: string])[];

/** Return what is written as a request for runs has it. */
export function queryOf(written: string): Query {
  const { values, text } = filterOf(written);
  return [...values, ['search', text]];
}

export function hasValue(written: string, field: FilterField, value: string): boolean {
  const plain = plainOf(value);
  return filterOf(written).values.some((one) => one[0] === field && one[1] === plain);
}

/** Add a value, or take it out where it is there. */
export function toggled(written: string, field: FilterField, value: string): string {
  const { values, text } = filterOf(written);
  const plain = plainOf(value);
  const others = values.filter((one) => one[0] !== field || one[1] !== plain);
  const kept = others.length < values.length ? others : [...values, [field, plain] as const];
  return [...kept.map(([name, one]) => tokenOf(name, one)), ...(text === '' ? [] : [text])].join(' ');
}

/** Return what may be meant by what is being written, whole: a field's name, or one of its values. */
export function completions(written: string, known: FieldValues | null): string[] {
  const found = LAST.exec(written);
  if (found === null) {
    return [];
  }
  const [, name, begun = ''] = found;
  const before = written.slice(0, written.length - begun.length - (name === undefined ? 0 : name.length + 1));
  const text = bare(begun).toLowerCase();
  if (name === undefined) {
    const fields = text === '' ? [] : FIELDS.filter((field) => field.startsWith(text));
    return fields.map((field) => `${before}${field}:`);
  }
  const field = name.toLowerCase() as FilterField;
  const values = (known?.[field] ?? []).map(([value]) => value).filter((value) => value.toLowerCase().includes(text));
  return values.map((value) => before + tokenOf(field, value)).filter((whole) => whole !== written);
}

function tokenOf(field: FilterField, value: string): string {
  const plain = plainOf(value);
  return `${field}:${/\s/.test(plain) ? `"${plain}"` : plain}`;
}

/** Return what of a value can be written: no quote can be in quotes, and the longest part without one finds it. */
function plainOf(value: string): string {
  const parts = value.split('"').map((part) => part.trim());
  return parts.reduce((longest, part) => (part.length > longest.length ? part : longest));
}

function bare(value: string): string {
  return value.replaceAll('"', '').trim();
}

/** A field that has no value yet chooses nothing, and is no text that a run could have. */
function isEmpty(token: string): boolean {
  return FIELDS.some((field) => token.toLowerCase() === `${field}:`);
}
