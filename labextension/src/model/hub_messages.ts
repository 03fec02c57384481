// Generated from jupyter_ddl/protocol/hub_messages.py by `make schema`; not to be edited.
import type { Field } from './event_fields';
import type { Fault } from './events';

/** One rank, as a panel shows it. */
export interface RankState {
  readonly rank: number;
  readonly local_rank: number;
  readonly host: string;
  readonly pid: number;
  readonly device: string;
  readonly threads: number;
  readonly state: "ready" | "running" | "lost" | "ended" | "silent" | "held";
}

/** The ranks of a kernel; `step` is the step of their start or replacement, `note` the defaults that were used. */
export interface ClusterState {
  readonly name: string;
  readonly state: "starting" | "idle" | "running" | "rebuilding" | "lost" | "stopped";
  readonly note: string;
  readonly step: string | null;
  readonly world_size: number;
  readonly ranks: readonly RankState[];
  readonly ends_at_s: number | null;
  readonly idle_ends_at_s: number | null;
  readonly keeps_variables: boolean;
  readonly job: string | null;
  readonly held: string | null;
}

/** A kernel's state: sent when it changes, and to each new connection. */
export interface KernelState {
  readonly type: "kernel_state";
  readonly kernel: string;
  readonly pid: number;
  readonly cluster: ClusterState | null;
  readonly run: string | null;
  readonly fault: Fault | null;
  readonly whole_notebook: boolean;
}

/** A kernel has ended, or has disconnected from the hub. */
export interface KernelGone {
  readonly type: "kernel_gone";
  readonly kernel: string;
}

/** A run has begun, or has ended. */
export interface RunNotice {
  readonly type: "run_notice";
  readonly kernel: string;
  readonly run: string;
  readonly state: "running" | "finished" | "failed" | "interrupted" | "timed out" | "stalled" | "lost";
  readonly cell_id: string | null;
  readonly ranks: string;
  readonly seconds: number | null;
  readonly fault: Fault | null;
}

/** The name, the note or the tags of a run were changed. */
export interface RunLabelled {
  readonly type: "run_labelled";
  readonly run: string;
}

/** The answer to a Control, or to a BoardAsked. */
export interface Answer {
  readonly type: "answer";
  readonly id: string;
  readonly result: unknown;
  readonly error: string | null;
}

/** Ask a kernel for something at once, whatever its main thread does. It is answered by an Answer of the same id. */
export interface Control {
  readonly type: "control";
  readonly id: string;
  readonly kernel: string;
  readonly do: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** Send a run's events, from the one with number `next` on, until Unwatch. */
export interface Watch {
  readonly type: "watch";
  readonly run: string;
  readonly next: number;
}

/** The browser has rendered a run's events before the one with number `next`: more may come. */
export interface Taken {
  readonly type: "taken";
  readonly run: string;
  readonly next: number;
}

/** Stop sending a run's events. */
export interface Unwatch {
  readonly type: "unwatch";
  readonly run: string;
}

export type ToBrowser =
  | KernelState
  | KernelGone
  | RunNotice
  | RunLabelled
  | Answer;

export type FromBrowser =
  | Control
  | Watch
  | Taken
  | Unwatch;

const STRING: Field = {"kind": "string"};
const NUMBER: Field = {"kind": "number"};
const NULLABLE_STRING: Field = {"kind": "string", "nullable": true};
const NULLABLE_NUMBER: Field = {"kind": "number", "nullable": true};
const OPTIONAL_NULLABLE_STRING: Field = {"kind": "string", "nullable": true, "default": null};
const OPTIONAL_NULLABLE_OBJECT: Field = {"kind": "object", "nullable": true, "default": null};
/** Of each type its fields: what JSON value each is, and what stands for one that may be left out. */
export const FIELDS: Readonly<Record<ToBrowser['type'], Readonly<Record<string, Field>>>> = {
  kernel_state: {
    kernel: STRING,
    pid: NUMBER,
    cluster: {"kind": "object", "nullable": true, "default": null, "of": {"name": STRING, "state": STRING, "note": STRING, "step": NULLABLE_STRING, "world_size": NUMBER, "ranks": {"kind": "array", "of": {"rank": NUMBER, "local_rank": NUMBER, "host": STRING, "pid": NUMBER, "device": STRING, "threads": NUMBER, "state": STRING}}, "ends_at_s": NULLABLE_NUMBER, "idle_ends_at_s": NULLABLE_NUMBER, "keeps_variables": {"kind": "boolean"}, "job": NULLABLE_STRING, "held": NULLABLE_STRING}},
    run: OPTIONAL_NULLABLE_STRING,
    fault: OPTIONAL_NULLABLE_OBJECT,
    whole_notebook: {"kind": "boolean", "default": false},
  },
  kernel_gone: {
    kernel: STRING,
  },
  run_notice: {
    kernel: STRING,
    run: STRING,
    state: STRING,
    cell_id: OPTIONAL_NULLABLE_STRING,
    ranks: {"kind": "string", "default": ""},
    seconds: {"kind": "number", "nullable": true, "default": null},
    fault: OPTIONAL_NULLABLE_OBJECT,
  },
  run_labelled: {
    run: STRING,
  },
  answer: {
    id: STRING,
    result: {"kind": "any", "default": null},
    error: OPTIONAL_NULLABLE_STRING,
  },
};
