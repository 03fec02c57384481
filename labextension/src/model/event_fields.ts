// Generated from jupyter_ddl/protocol/events.py by `make schema`; not to be edited.
import type { DdlEvent } from './events';

export interface Field {
  readonly kind: 'string' | 'number' | 'boolean' | 'array' | 'object' | 'any';
  readonly nullable?: true;
  readonly default?: unknown;
  /** What the object, or each item of the array, has. */
  readonly of?: Readonly<Record<string, Field>>;
}

const NUMBER: Field = {"kind": "number"};
const STRING: Field = {"kind": "string"};
const OPTIONAL_BOOLEAN: Field = {"kind": "boolean", "default": false};
const OBJECT: Field = {"kind": "object"};
const OPTIONAL_NULLABLE_STRING: Field = {"kind": "string", "nullable": true, "default": null};
const ARRAY: Field = {"kind": "array"};
const OPTIONAL_NUMBER: Field = {"kind": "number", "default": 0};
const OPTIONAL_OBJECT: Field = {"kind": "object", "default": {}};
const BOOLEAN: Field = {"kind": "boolean"};
const OPTIONAL_NULLABLE_NUMBER: Field = {"kind": "number", "nullable": true, "default": null};
const OPTIONAL_STRING: Field = {"kind": "string", "default": ""};
const OPTIONAL_ARRAY: Field = {"kind": "array", "default": []};
/** Of each type its fields: what JSON value each is, and what stands for one that may be left out. */
export const FIELDS: Readonly<Record<DdlEvent['type'], Readonly<Record<string, Field>>>> = {
  rank_ready: {
    rank: NUMBER,
    world_size: NUMBER,
    local_rank: NUMBER,
    host: STRING,
    pid: NUMBER,
    device: STRING,
    threads: NUMBER,
    uses_horovod: OPTIONAL_BOOLEAN,
  },
  rank_warm: {
    rank: NUMBER,
    versions: OBJECT,
    seconds: NUMBER,
    problem: OPTIONAL_NULLABLE_STRING,
  },
  run_started: {
    run: STRING,
    ranks: ARRAY,
    world_size: NUMBER,
    at_s: NUMBER,
  },
  output: {
    run: STRING,
    rank: NUMBER,
    stream: STRING,
    text: STRING,
    skipped_bytes: OPTIONAL_NUMBER,
    at_s: {"kind": "number", "default": 0.0},
    end_bytes: OPTIONAL_NUMBER,
    n: OPTIONAL_NUMBER,
  },
  rich_output: {
    run: STRING,
    rank: NUMBER,
    kind: STRING,
    data: OBJECT,
    metadata: OPTIONAL_OBJECT,
    display_id: OPTIONAL_NULLABLE_STRING,
    n: OPTIONAL_NUMBER,
  },
  output_cleared: {
    run: STRING,
    rank: NUMBER,
    wait: BOOLEAN,
    n: OPTIONAL_NUMBER,
  },
  metrics: {
    model: OPTIONAL_NULLABLE_STRING,
    step: OPTIONAL_NULLABLE_NUMBER,
    steps: OPTIONAL_NUMBER,
    epoch: OPTIONAL_NULLABLE_NUMBER,
    samples_per_s: OPTIONAL_NULLABLE_NUMBER,
    step_s: OPTIONAL_NULLABLE_NUMBER,
    step_p50_s: OPTIONAL_NULLABLE_NUMBER,
    step_p95_s: OPTIONAL_NULLABLE_NUMBER,
    input_s: OPTIONAL_NULLABLE_NUMBER,
    exchange_s: OPTIONAL_NULLABLE_NUMBER,
    loss: OPTIONAL_NULLABLE_NUMBER,
    metrics: OPTIONAL_OBJECT,
    epochs: OPTIONAL_NULLABLE_NUMBER,
    epoch_part: OPTIONAL_NULLABLE_NUMBER,
    gpu_pct: OPTIONAL_NULLABLE_NUMBER,
    gpu_memory_used_bytes: OPTIONAL_NULLABLE_NUMBER,
    gpu_memory_total_bytes: OPTIONAL_NULLABLE_NUMBER,
    gpu_watts: OPTIONAL_NULLABLE_NUMBER,
    gpu_celsius: OPTIONAL_NULLABLE_NUMBER,
    nvlink_received_bytes_per_s: OPTIONAL_NULLABLE_NUMBER,
    nvlink_sent_bytes_per_s: OPTIONAL_NULLABLE_NUMBER,
    network_received_bytes_per_s: OPTIONAL_NULLABLE_NUMBER,
    network_sent_bytes_per_s: OPTIONAL_NULLABLE_NUMBER,
    fabric_received_bytes_per_s: OPTIONAL_NULLABLE_NUMBER,
    fabric_sent_bytes_per_s: OPTIONAL_NULLABLE_NUMBER,
    run: STRING,
    rank: NUMBER,
    at_s: NUMBER,
    cpu_pct: NUMBER,
    rss_bytes: NUMBER,
    n: OPTIONAL_NUMBER,
  },
  epoch_ended: {
    run: STRING,
    rank: NUMBER,
    at_s: NUMBER,
    epoch: NUMBER,
    step: NUMBER,
    metrics: OBJECT,
    is_last: OPTIONAL_BOOLEAN,
    n: OPTIONAL_NUMBER,
  },
  parameters: {
    run: STRING,
    rank: NUMBER,
    parameters: OBJECT,
    n: OPTIONAL_NUMBER,
  },
  straggler: {
    run: STRING,
    rank: NUMBER,
    at_s: NUMBER,
    is_straggler: BOOLEAN,
    ratio: NUMBER,
    spends_on: STRING,
  },
  rank_finished: {
    run: STRING,
    rank: NUMBER,
    at_s: NUMBER,
    uses_horovod: OPTIONAL_BOOLEAN,
    horovod_runs: OPTIONAL_BOOLEAN,
    entered: OPTIONAL_NULLABLE_NUMBER,
    n: OPTIONAL_NUMBER,
  },
  rank_failed: {
    run: STRING,
    rank: NUMBER,
    host: STRING,
    name: STRING,
    message: STRING,
    traceback: ARRAY,
    released: BOOLEAN,
    at_s: NUMBER,
    uses_horovod: OPTIONAL_BOOLEAN,
    reason: OPTIONAL_NULLABLE_STRING,
    given: OPTIONAL_NULLABLE_STRING,
    entered: OPTIONAL_NULLABLE_NUMBER,
    n: OPTIONAL_NUMBER,
  },
  rank_lost: {
    rank: {"kind": "number", "nullable": true},
    fault: OBJECT,
    at_s: NUMBER,
  },
  rank_alive: {
    rank: NUMBER,
    interrupted: OPTIONAL_NULLABLE_STRING,
  },
  rank_silent: {
    rank: NUMBER,
    seconds: NUMBER,
    fault: {"kind": "object", "nullable": true},
    at_s: NUMBER,
    is_back: OPTIONAL_BOOLEAN,
  },
  collective_stalled: {
    run: STRING,
    rank: NUMBER,
    at_s: NUMBER,
    waited_s: NUMBER,
    tensors: ARRAY,
    missing: OBJECT,
    n: OPTIONAL_NUMBER,
  },
  stall_reported: {
    run: STRING,
    ranks: ARRAY,
    at_s: NUMBER,
    fault: OBJECT,
  },
  rank_stacks: {
    look: STRING,
    rank: NUMBER,
    host: STRING,
    threads: ARRAY,
    note: OPTIONAL_STRING,
  },
  rank_profile: {
    look: STRING,
    rank: NUMBER,
    host: STRING,
    ticks: OPTIONAL_NUMBER,
    samples: OPTIONAL_NUMBER,
    frames: OPTIONAL_ARRAY,
    parents: OPTIONAL_ARRAY,
    places: OPTIONAL_ARRAY,
    counts: OPTIONAL_ARRAY,
    note: OPTIONAL_STRING,
    problem: OPTIONAL_NULLABLE_STRING,
  },
  looked_up: {
    look: STRING,
    rank: NUMBER,
    content: OBJECT,
  },
  rank_debugged: {
    look: STRING,
    rank: NUMBER,
    answer: OBJECT,
  },
  rank_held: {
    run: STRING,
    rank: NUMBER,
    at_s: NUMBER,
    file: OPTIONAL_STRING,
    line: OPTIONAL_NUMBER,
    function: OPTIONAL_STRING,
    n: OPTIONAL_NUMBER,
  },
  host_described: {
    rank: NUMBER,
    host: STRING,
    topology: OBJECT,
  },
  run_finished: {
    run: STRING,
    outcome: STRING,
    seconds: NUMBER,
    fault: {"kind": "object", "nullable": true, "default": null},
  },
};
