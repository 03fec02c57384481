// JSON to events. What a newer kernel adds is left out, what is no event is told apart.
import { FIELDS, type DdlEvent, type Field } from './events';

/** JSON has no NaN and no infinity, and a loss may be either: the kernel sends them as these words. */
const NUMBERS: Readonly<Record<string, number>> = { NaN: NaN, Infinity: Infinity, '-Infinity': -Infinity };

/** Return the event of a JSON value, or null for a type that this version does not know.
 *
 * @throws TypeError when a field is missing or is not what events.py says.
 */
export function parseEvent(value: unknown): DdlEvent | null {
  if (!isRecord(value) || typeof value['type'] !== 'string') {
    throw new TypeError(`An event must be an object with a type. Received: ${JSON.stringify(value)}.`);
  }
  const type = value['type'];
  if (!Object.hasOwn(FIELDS, type)) {
    return null;
  }
  const event: Record<string, unknown> = { type };
  for (const [name, field] of Object.entries(FIELDS[type as DdlEvent['type']])) {
    event[name] = fieldOf(value, name, field);
  }
  // Every field has been checked against the table that is generated with the types.
  return event as unknown as DdlEvent;
}

function fieldOf(value: Readonly<Record<string, unknown>>, name: string, field: Field): unknown {
  const found = value[name];
  if (found === undefined && 'default' in field) {
    return field.default;
  }
  if (field.kind === 'number' && typeof found === 'string' && found in NUMBERS) {
    return NUMBERS[found];
  }
  if (found === undefined || !isOf(found, field)) {
    const kind = field.nullable ? `${field.kind} or null` : field.kind;
    throw new TypeError(
      `${name} of a ${String(value['type'])} event must be: ${kind}. Received: ${JSON.stringify(found)}.`,
    );
  }
  if (name === 'metrics' && isRecord(found)) {
    return Object.fromEntries(Object.entries(found).map(([key, number]) => [key, numberOf(number)]));
  }
  return found;
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : (NUMBERS[String(value)] ?? NaN);
}

function isOf(value: unknown, field: Field): boolean {
  if (value === null) {
    return field.nullable || field.kind === 'any';
  }
  switch (field.kind) {
    case 'any':
      return true;
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isRecord(value);
    default:
      return typeof value === field.kind;
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
