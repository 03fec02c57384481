// JSON to the hub's messages, with the check of what comes from outside.
import { FIELDS, type ToBrowser } from './hub_messages';
import { isOf, isRecord } from './parse';

/** Return the message in a text frame, or null for a type that this version does not know.
 *
 * @throws TypeError when a field is missing or is not what the kernel's side says.
 */
export function parseHubMessage(frame: string): ToBrowser | null {
  const found: unknown = JSON.parse(frame);
  if (!isRecord(found) || typeof found['type'] !== 'string') {
    throw new TypeError(`A message must be an object with a type. Received: ${frame.slice(0, 80)}.`);
  }
  const type = found['type'];
  if (!isKnown(type)) {
    return null;
  }
  const message: Record<string, unknown> = { ...found };
  for (const [name, field] of Object.entries(FIELDS[type])) {
    const value = found[name] === undefined ? field.default : found[name];
    if (value === undefined || !isOf(value, field)) {
      throw new TypeError(`${name} of a ${type} message is not what it must be. Received: ${JSON.stringify(value)}.`);
    }
    message[name] = value;
  }
  // Every field that is read has been checked.
  return message as unknown as ToBrowser;
}

function isKnown(type: string): type is ToBrowser['type'] {
  return Object.hasOwn(FIELDS, type);
}
