// Generated from jupyter_ddl/protocol/events.py by `make schema`; not to be edited.

/** What is done about lost ranks, or can be. */
export interface Remedy {
  readonly step: "restart" | "restart again" | "replaced" | "replaced on fewer hosts" | "restarting" | "submit" | "wait" | "find the cause" | "not replaced";
  readonly ranks: number;
  readonly setup_cells: number;
  readonly problem: string;
  readonly checkpoints: readonly string[];
}

/** What a rank held when it was ended for it. */
export interface MemoryExcess {
  readonly held_bytes: number;
  readonly processes: number;
  readonly most_bytes: number;
  readonly by: string;
  readonly on_gpu: boolean;
}

/** What a rank's last sample reported. */
export interface LastSample {
  readonly before_s: number;
  readonly rss_bytes: number;
  readonly gpu_memory_used_bytes: number | null;
  readonly gpu_memory_total_bytes: number | null;
  readonly step: number | null;
}

/** Collectives, by their names, in which the same ranks are missing; none where these are not known. */
export interface Wait {
  readonly tensors: readonly string[];
  readonly missing: readonly number[];
}

/** What is known of the process of a rank that does not answer. */
export interface RankProcess {
  readonly rank: number;
  readonly state: "answers" | "importing" | "unwinding" | "elsewhere" | "unreachable" | "gone" | "hidden" | "starved" | "stopped" | "traced" | "running" | "sleeping" | "disk" | "ended" | "other" | "unknown" | "in words";
  readonly pid: number | null;
  readonly host: string | null;
  readonly detail: string;
}

/** One call of a thread; without a file it stands for others that are left out, and `function` says how many. */
export interface Frame {
  readonly file: string;
  readonly line: number;
  readonly function: string;
  readonly text: string;
}

/** Where a thread is: its calls, outermost first. */
export interface Thread {
  readonly name: string;
  readonly frames: readonly Frame[];
}

/** Where some ranks are, all at the same place. */
export interface StackPlace {
  readonly ranks: readonly number[];
  readonly hosts: readonly string[];
  readonly threads: readonly Thread[];
  readonly note: string;
}

/** What is known of a fault; a default where nothing is. */
export interface Facts {
  readonly world_size: number | null;
  readonly pid: number | null;
  readonly signum: number | null;
  readonly status: number | null;
  readonly is_unseen: boolean;
  readonly oom_kills: number;
  readonly excess: MemoryExcess | null;
  readonly last: LastSample | null;
  readonly evidence: string;
  readonly output: string;
  readonly error: string;
  readonly message: string;
  readonly released: readonly number[];
  readonly finished: readonly number[];
  readonly killed: readonly number[];
  readonly seconds: number | null;
  readonly limit_s: number | null;
  readonly by: string;
  readonly outcome: string;
  readonly program: "cell" | "script";
  readonly waits: readonly Wait[];
  readonly processes: readonly RankProcess[];
  readonly places: readonly StackPlace[];
  readonly note: string;
}

/** What failed, where, since when, what is known of it, why, and what helps. */
export interface Fault {
  readonly kind: "raised" | "lost" | "stopped" | "silent" | "unanswered" | "stalled" | "timed out" | "interrupted" | "cut off";
  readonly subject: "rank" | "ranks" | "mpiexec" | "host" | "job" | "controller" | "lease" | "event reader" | "lease watch" | "host watch" | "connection" | "release" | "user" | "idle" | "kernel" | "unknown";
  readonly ranks: readonly number[];
  readonly host: string | null;
  readonly at_s: number;
  readonly cause: "out of memory killer" | "memory limit" | "allocation" | "different sizes" | "failed check" | "signal" | null;
  readonly remedy: Remedy | null;
  readonly facts: Facts;
  readonly text: string;
}

/** A GPU, as it is joined to its host; one in MIG mode counts as one. */
export interface HostGpu {
  readonly index: number;
  readonly name: string;
  readonly pci_address: string;
  readonly paths: readonly string[];
  readonly numa: string;
  readonly cores: string;
}

/** A network interface that is up. */
export interface Interface {
  readonly name: string;
  readonly address: string;
  readonly mbit_per_s: number | null;
  readonly is_infiniband: boolean;
}

/** What one host has. */
export interface HostTopology {
  readonly gpus: readonly HostGpu[];
  readonly no_gpus: string | null;
  readonly interfaces: readonly Interface[];
}

/** A rank can run cells. */
export interface RankReady {
  readonly type: "rank_ready";
  readonly rank: number;
  readonly world_size: number;
  readonly local_rank: number;
  readonly host: string;
  readonly pid: number;
  readonly device: string;
  readonly threads: number;
  readonly uses_horovod: boolean;
}

/** A rank has imported TensorFlow and Horovod, or could not. */
export interface RankWarm {
  readonly type: "rank_warm";
  readonly rank: number;
  readonly versions: Readonly<Record<string, string>>;
  readonly seconds: number;
  readonly problem: string | null;
}

/** The session sent a cell to its ranks. */
export interface RunStarted {
  readonly type: "run_started";
  readonly run: string;
  readonly ranks: readonly number[];
  readonly world_size: number;
  readonly at_s: number;
}

/** What a rank wrote to one of its standard streams. */
export interface OutputChunk {
  readonly type: "output";
  readonly run: string;
  readonly rank: number;
  readonly stream: "stdout" | "stderr";
  readonly text: string;
  readonly skipped_bytes: number;
  readonly at_s: number;
  readonly end_bytes: number;
  readonly n: number;
}

/** A figure, a table, or the value of the cell's last expression. */
export interface RichOutput {
  readonly type: "rich_output";
  readonly run: string;
  readonly rank: number;
  readonly kind: "display" | "update" | "result";
  readonly data: Readonly<Record<string, unknown>>;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly display_id: string | null;
  readonly n: number;
}

/** The rank's code called `clear_output`; with `wait`, the clearing waits for the next output. */
export interface OutputCleared {
  readonly type: "output_cleared";
  readonly run: string;
  readonly rank: number;
  readonly wait: boolean;
  readonly n: number;
}

/** A rank's training and resources, once a second or as often as was requested. */
export interface MetricsSample {
  readonly type: "metrics";
  readonly model: string | null;
  readonly step: number | null;
  readonly steps: number;
  readonly epoch: number | null;
  readonly samples_per_s: number | null;
  readonly step_s: number | null;
  readonly step_p50_s: number | null;
  readonly step_p95_s: number | null;
  readonly input_s: number | null;
  readonly exchange_s: number | null;
  readonly loss: number | null;
  readonly metrics: Readonly<Record<string, number>>;
  readonly epochs: number | null;
  readonly epoch_part: number | null;
  readonly gpu_pct: number | null;
  readonly gpu_memory_used_bytes: number | null;
  readonly gpu_memory_total_bytes: number | null;
  readonly gpu_watts: number | null;
  readonly gpu_celsius: number | null;
  readonly nvlink_received_bytes_per_s: number | null;
  readonly nvlink_sent_bytes_per_s: number | null;
  readonly network_received_bytes_per_s: number | null;
  readonly network_sent_bytes_per_s: number | null;
  readonly fabric_received_bytes_per_s: number | null;
  readonly fabric_sent_bytes_per_s: number | null;
  readonly run: string;
  readonly rank: number;
  readonly at_s: number;
  readonly cpu_pct: number;
  readonly rss_bytes: number;
  readonly n: number;
}

/** What an epoch of a `fit` came to: of ranks that train together the first one reports it. */
export interface EpochEnded {
  readonly type: "epoch_ended";
  readonly run: string;
  readonly rank: number;
  readonly at_s: number;
  readonly epoch: number;
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly is_last: boolean;
  readonly n: number;
}

/** What `fit` was given on a rank, or what its code logged with `jupyter_ddl.log_params`. */
export interface ParametersLogged {
  readonly type: "parameters";
  readonly run: string;
  readonly rank: number;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly n: number;
}

/** A rank's own steps (without the exchange) became slower than the others', or no longer are. */
export interface StragglerMarked {
  readonly type: "straggler";
  readonly run: string;
  readonly rank: number;
  readonly at_s: number;
  readonly is_straggler: boolean;
  readonly ratio: number;
  readonly spends_on: "compute" | "input";
}

/** A rank ran the cell to its end. */
export interface RankFinished {
  readonly type: "rank_finished";
  readonly run: string;
  readonly rank: number;
  readonly at_s: number;
  readonly uses_horovod: boolean;
  readonly horovod_runs: boolean;
  readonly entered: number | null;
  readonly n: number;
}

/** The cell raised on a rank. */
export interface RankFailed {
  readonly type: "rank_failed";
  readonly run: string;
  readonly rank: number;
  readonly host: string;
  readonly name: string;
  readonly message: string;
  readonly traceback: readonly string[];
  readonly released: boolean;
  readonly at_s: number;
  readonly uses_horovod: boolean;
  readonly reason: string | null;
  readonly given: string | null;
  readonly entered: number | null;
  readonly n: number;
}

/** A rank's process ended, and the whole MPI job with it; `rank` is None where no rank was the first. */
export interface RankLost {
  readonly type: "rank_lost";
  readonly rank: number | null;
  readonly fault: Fault;
  readonly at_s: number;
}

/** A rank answers: its process runs, and Python code in it can. */
export interface RankAlive {
  readonly type: "rank_alive";
  readonly rank: number;
  readonly interrupted: string | null;
}

/** A rank has not answered for a while; or it answers again. */
export interface RankSilent {
  readonly type: "rank_silent";
  readonly rank: number;
  readonly seconds: number;
  readonly fault: Fault | null;
  readonly at_s: number;
  readonly is_back: boolean;
}

/** Horovod reported, on the rank that coordinates a collective, that other ranks do not enter it. */
export interface CollectiveStalled {
  readonly type: "collective_stalled";
  readonly run: string;
  readonly rank: number;
  readonly at_s: number;
  readonly waited_s: number;
  readonly tensors: readonly string[];
  readonly missing: Readonly<Record<string, unknown>>;
  readonly n: number;
}

/** The session found where the ranks of a stalled run are. */
export interface StallReported {
  readonly type: "stall_reported";
  readonly run: string;
  readonly ranks: readonly number[];
  readonly at_s: number;
  readonly fault: Fault;
}

/** Where a rank's Python threads are, as a LookAtStacks asks. */
export interface RankStacks {
  readonly type: "rank_stacks";
  readonly look: string;
  readonly rank: number;
  readonly host: string;
  readonly threads: readonly Readonly<Record<string, unknown>>[];
  readonly note: string;
}

/** Where a rank's main thread was for some seconds, as a ProfileRank asks: calls, with how often each was seen. */
export interface RankProfile {
  readonly type: "rank_profile";
  readonly look: string;
  readonly rank: number;
  readonly host: string;
  readonly ticks: number;
  readonly samples: number;
  readonly frames: readonly Frame[];
  readonly parents: readonly number[];
  readonly places: readonly number[];
  readonly counts: readonly number[];
  readonly note: string;
  readonly problem: string | null;
}

/** What a rank answers to LookUp. */
export interface LookedUp {
  readonly type: "looked_up";
  readonly look: string;
  readonly rank: number;
  readonly content: Readonly<Record<string, unknown>>;
}

/** What a rank answers to DebugRank. */
export interface RankDebugged {
  readonly type: "rank_debugged";
  readonly look: string;
  readonly rank: number;
  readonly answer: Readonly<Record<string, unknown>>;
}

/** A rank is held in the debugger, or runs again: then `file` is empty. */
export interface RankHeld {
  readonly type: "rank_held";
  readonly run: string;
  readonly rank: number;
  readonly at_s: number;
  readonly file: string;
  readonly line: number;
  readonly function: string;
  readonly n: number;
}

/** What a rank's host has, as DescribeHost asks; the first rank of a script on each host sends it unasked. */
export interface HostDescribed {
  readonly type: "host_described";
  readonly rank: number;
  readonly host: string;
  readonly topology: HostTopology;
}

/** Every rank of the run has finished, failed or ended. */
export interface RunFinished {
  readonly type: "run_finished";
  readonly run: string;
  readonly outcome: "finished" | "failed" | "interrupted" | "timed out" | "stalled" | "lost";
  readonly seconds: number;
  readonly fault: Fault | null;
}

export type DdlEvent =
  | RankReady
  | RankWarm
  | RunStarted
  | OutputChunk
  | RichOutput
  | OutputCleared
  | MetricsSample
  | EpochEnded
  | ParametersLogged
  | StragglerMarked
  | RankFinished
  | RankFailed
  | RankLost
  | RankAlive
  | RankSilent
  | CollectiveStalled
  | StallReported
  | RankStacks
  | RankProfile
  | LookedUp
  | RankDebugged
  | RankHeld
  | HostDescribed
  | RunFinished;
