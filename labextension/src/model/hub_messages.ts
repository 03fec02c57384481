// What kernels tell through the hub. The kernel's side is jupyter_ddl/protocol/hub_messages.py; tests of both read hub.fixture.json.
import { isRecord } from './parse';

export type RankStanding = 'ready' | 'running' | 'lost' | 'ended' | 'silent';

export interface ClusterRank {
  readonly rank: number;
  readonly local_rank: number;
  readonly host: string;
  readonly pid: number;
  readonly device: string;
  readonly threads: number;
  readonly state: RankStanding;
}

export interface ClusterState {
  readonly name: string;
  readonly state: 'starting' | 'idle' | 'running' | 'rebuilding' | 'lost' | 'stopped';
  readonly note: string;
  /** What a start or a rebuild does now. */
  readonly step: string | null;
  readonly world_size: number;
  readonly ranks: readonly ClusterRank[];
}

/** A kernel that has jupyter_ddl loaded, and its ranks. */
export interface KernelState {
  readonly type: 'kernel_state';
  readonly kernel: string;
  readonly pid: number;
  readonly cluster: ClusterState | null;
  readonly run: string | null;
  readonly fault: string | null;
}

export interface KernelGone {
  readonly type: 'kernel_gone';
  readonly kernel: string;
}

/** A run began, or ended with an outcome. */
export interface RunNotice {
  readonly type: 'run_notice';
  readonly kernel: string;
  readonly run: string;
  readonly state: string;
  readonly cell_id: string | null;
  readonly ranks: string;
  readonly seconds: number | null;
  readonly fault: string | null;
}

export interface Answer {
  readonly type: 'answer';
  readonly id: string;
  readonly result: unknown;
  readonly error: string | null;
}

export type HubMessage = KernelState | KernelGone | RunNotice | Answer;

type Check = (value: unknown) => boolean;

const text: Check = (value) => typeof value === 'string';
const number: Check = (value) => typeof value === 'number';
const orNull = (check: Check): Check => (value) => value === null || check(value);
const fields = (checks: Readonly<Record<string, Check>>): Check => (value) =>
  isRecord(value) && Object.entries(checks).every(([name, check]) => check(value[name]));

const RANK = fields({ rank: number, local_rank: number, host: text, pid: number, device: text, threads: number, state: text });
const CLUSTER = fields({
  name: text,
  state: text,
  note: text,
  step: orNull(text),
  world_size: number,
  ranks: (value) => Array.isArray(value) && value.every(RANK),
});
const MESSAGES: Readonly<Record<HubMessage['type'], Readonly<Record<string, Check>>>> = {
  kernel_state: { kernel: text, pid: number, cluster: orNull(CLUSTER), run: orNull(text), fault: orNull(text) },
  kernel_gone: { kernel: text },
  run_notice: {
    kernel: text,
    run: text,
    state: text,
    cell_id: orNull(text),
    ranks: text,
    seconds: orNull(number),
    fault: orNull(text),
  },
  answer: { id: text, error: orNull(text) },
};
/** What a sender may leave out. */
const DEFAULTS = { cluster: null, run: null, fault: null, cell_id: null, ranks: '', seconds: null, result: null, error: null };

/** Return the message in a text frame, or null for a type that this version does not know.
 *
 * @throws TypeError when a field is missing or is not what the kernel's side says.
 */
export function parseHubMessage(frame: string): HubMessage | null {
  const found: unknown = JSON.parse(frame);
  if (!isRecord(found) || typeof found['type'] !== 'string') {
    throw new TypeError(`A message must be an object with a type. Received: ${frame.slice(0, 80)}.`);
  }
  const type = found['type'];
  if (!isKnown(type)) {
    return null;
  }
  const message = { ...DEFAULTS, ...found };
  for (const [name, check] of Object.entries(MESSAGES[type])) {
    const value = (message as Readonly<Record<string, unknown>>)[name];
    if (!check(value)) {
      throw new TypeError(`${name} of a ${type} message is not what it must be. Received: ${JSON.stringify(value)}.`);
    }
  }
  // Every field that is read has been checked.
  return message as unknown as HubMessage;
}

function isKnown(type: string): type is HubMessage['type'] {
  return Object.hasOwn(MESSAGES, type);
}
