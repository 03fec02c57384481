// JSON to events. A newer kernel's additions are left out; what is no event is reported as such.
import { FIELDS, type Field } from './event_fields';
import type { DdlEvent } from './events';

/** JSON has no NaN and no infinity, and a loss may be either: they come as these words (jupyter_ddl/protocol/codec.py). */
const NUMBERS: ReadonlyMap<unknown, number> = new Map([
  ['NaN', NaN],
  ['Infinity', Infinity],
  ['-Infinity', -Infinity],
]);

/** Of a type: an event with nothing but defaults, which is copied (many times faster than to add field by field). */
interface Kind {
  readonly type: string;
  readonly blank: Readonly<Record<string, unknown>>;
  readonly fields: ReadonlyMap<string, Field>;
}

const KINDS: ReadonlyMap<string, Kind> = new Map(
  Object.entries(FIELDS).map(([type, fields]) => {
    const blank = Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.default]));
    return [type, { type, blank: { type, ...blank }, fields: new Map(Object.entries(fields)) }];
  }),
);

/** Return the event of a JSON value, or null for a type that this version does not know.
 *
 * @throws TypeError when a field is missing or is not what events.py says.
 */
export function parseEvent(value: unknown): DdlEvent | null {
  if (!isRecord(value) || typeof value['type'] !== 'string') {
    throw new TypeError(`An event must be an object with a type. Received: ${JSON.stringify(value)}.`);
  }
  const kind = KINDS.get(value['type']);
  if (kind === undefined) {
    return null;
  }
  const event: Record<string, unknown> = { ...kind.blank };
  const own = ofThisVersion(value);
  for (const [name, field] of kind.fields) {
    const found = own[name];
    if (found !== undefined || !('default' in field)) {
      event[name] = checked(kind.type, name, field, found);
    }
  }
  return asEvent(event);
}

/** Of a type: the field in which older versions said a fault in words. A saved notebook has such events. */
const IN_WORDS: ReadonlyMap<unknown, string> = new Map([
  ['rank_lost', 'cause'],
  ['rank_silent', 'state'],
  ['stall_reported', 'text'],
]);

function ofThisVersion(value: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const said = value['fault'] === undefined ? value[IN_WORDS.get(value['type']) ?? ''] : undefined;
  return typeof said === 'string' ? { ...value, fault: { subject: 'unknown', text: said } } : value;
}

/** Events of one type that come as rows: what is in the columns, and what all have. */
export class Table {
  private readonly blank: Record<string, unknown>;
  private readonly columns: readonly (readonly [string, Field] | null)[];
  private readonly kind: Kind | null;
  /** The least length of a row. */
  private readonly needed: number;
  /** The place of the rank in a row; 0 where no column has it. */
  private readonly rankAt: number;
  /** The last row of several ranks, with the event that all of these have but for the rank. */
  private shared: { readonly row: readonly unknown[]; readonly event: Record<string, unknown> } | null = null;

  /** @throws TypeError when the table is none. */
  constructor(value: unknown) {
    if (!isRecord(value) || typeof value['type'] !== 'string' || !Array.isArray(value['columns'])) {
      throw new TypeError(`A table must have a type and columns. Received: ${JSON.stringify(value)}.`);
    }
    this.kind = KINDS.get(value['type']) ?? null;
    const fields = this.kind?.fields ?? new Map<string, Field>();
    const common = new Map(isRecord(value['common']) ? Object.entries(value['common']) : []);
    this.blank = { ...this.kind?.blank };
    for (const [name, found] of common) {
      const field = fields.get(name);
      if (field !== undefined) {
        this.blank[name] = checked(value['type'], name, field, found);
      }
    }
    const names = value['columns'].map(String);
    this.rankAt = fields.has('rank') ? names.indexOf('rank') + 1 : 0;
    this.columns = names.map((name) => {
      const field = fields.get(name);
      return field === undefined ? null : [name, field];
    });
    const required = [...fields].filter(([name, field]) => !('default' in field) && !common.has(name));
    // One that is in no column is never there.
    const places = required.map(([name]) => (names.includes(name) ? names.indexOf(name) + 1 : Infinity));
    this.needed = Math.max(0, ...places);
  }

  /** How many events a row stands for: where it has a list of ranks, one of each. */
  count(row: readonly unknown[]): number {
    const ranks = row[this.rankAt];
    return Array.isArray(ranks) ? ranks.length : 1;
  }

  /** Return one of a row's events; null for a type that is not known. A row begins with the table's number.
   *
   * @throws TypeError as `parseEvent`.
   */
  read(row: readonly unknown[], which = 0): DdlEvent | null {
    const { kind, rankAt } = this;
    if (kind === null) {
      return null;
    }
    const ranks = row[rankAt];
    if (!Array.isArray(ranks)) {
      return asEvent(this.eventOf(kind, row));
    }
    if (this.shared?.row !== row) {
      this.shared = { row, event: this.eventOf(kind, [...row.slice(0, rankAt), ranks[0], ...row.slice(rankAt + 1)]) };
    }
    return asEvent({ ...this.shared.event, rank: checked(kind.type, ...this.columns[rankAt - 1]!, ranks[which]) });
  }

  private eventOf(kind: Kind, row: readonly unknown[]): Record<string, unknown> {
    const { columns } = this;
    const count = row.length - 1;
    if (count < this.needed) {
      throw new TypeError(`A row of ${kind.type} events must have ${this.needed} places. Received: ${JSON.stringify(row)}.`);
    }
    const event: Record<string, unknown> = { ...this.blank };
    for (let at = 0; at < count && at < columns.length; at++) {
      const column = columns[at];
      if (column != null) {
        event[column[0]] = checked(kind.type, column[0], column[1], row[at + 1]);
      }
    }
    return event;
  }
}

/** Every field has been checked against the table that is generated with the types. */
function asEvent(event: Record<string, unknown>): DdlEvent {
  return event as unknown as DdlEvent;
}

function checked(type: string, name: string, field: Field, found: unknown): unknown {
  // Of a thousand ranks come ten thousand numbers a second: they go first.
  if (field.kind === 'number' && (typeof found === 'number' || (found === null && field.nullable))) {
    return found;
  }
  if (field.kind === 'number' && NUMBERS.has(found)) {
    return NUMBERS.get(found);
  }
  if (found === undefined || !isOf(found, field)) {
    const kind = field.nullable ? `${field.kind} or null` : field.kind;
    throw new TypeError(`${name} of a ${type} event must be: ${kind}. Received: ${JSON.stringify(found)}.`);
  }
  if (name === 'metrics' && isRecord(found)) {
    for (const key in found) {
      found[key] = numberOf(found[key]);
    }
  }
  if (name === 'fault' && isRecord(found) && typeof found['text'] !== 'string') {
    found['text'] = '';
  }
  return found;
}

/** Return the number that a JSON value stands for; NaN for what stands for none. */
export function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : (NUMBERS.get(value) ?? NaN);
}

/** Return the number that a JSON value stands for; null for what stands for none. */
export function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' || NUMBERS.has(value) ? numberOf(value) : null;
}

/** Return whether a JSON value is what a field holds. */
export function isOf(value: unknown, field: Field): boolean {
  if (value === null) {
    return field.nullable || field.kind === 'any';
  }
  const { of } = field;
  const has = (item: unknown): boolean =>
    of === undefined || (isRecord(item) && Object.entries(of).every(([name, inner]) => isOf(item[name], inner)));
  switch (field.kind) {
    case 'any':
      return true;
    case 'array':
      return Array.isArray(value) && (of === undefined || value.every(has));
    case 'object':
      return isRecord(value) && has(value);
    default:
      return typeof value === field.kind;
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
