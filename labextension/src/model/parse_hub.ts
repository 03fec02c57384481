// Frames to the hub's messages, with the check of what comes from outside.
import { FIELDS, type ToBrowser } from './hub_messages';
import { isOf, isRecord } from './parse';

const NEWLINE = 10;

/** Events of a run that is watched. */
export interface RunBatch {
  readonly run: string;
  /** They are in the frame. */
  readonly bytes: DataView;
  /** How the run ended, where none of its events says so: its kernel died. */
  readonly ended: string | null;
}

/** Return what is in a binary frame: a line of JSON, then the events; null where the line names no run. */
export function parseRunBatch(frame: ArrayBuffer): RunBatch | null {
  const bytes = new Uint8Array(frame);
  const end = bytes.indexOf(NEWLINE);
  const head: unknown = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
  if (!isRecord(head) || typeof head['run'] !== 'string') {
    return null;
  }
  return { run: head['run'], bytes: new DataView(frame, end + 1), ended: typeof head['ended'] === 'string' ? head['ended'] : null };
}

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
