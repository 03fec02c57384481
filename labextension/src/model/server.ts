// What models ask of the Jupyter server. The connection is one; tests have their own. No DOM.
import type { ReadonlyJSONObject } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import type { BatchJob } from './jobs';
import type { KeptCluster } from './kept';
import type { LogPattern } from './log_model';
import type { LinesPage, LinesPlace } from './log_window';
import type { ExportRequest, Place } from './place';
import type { RunFacts } from './run_facts';
import type { RunPage, RunRecord } from './runs';
import type { Device, HostRoom } from './start';

export type ControlName = 'interrupt' | 'stop' | 'restart' | 'stacks' | 'profile' | 'complete' | 'inspect';

export interface RunDetails {
  readonly record: RunRecord;
  readonly cell: string;
  readonly facts: RunFacts;
}

export interface LogSize {
  readonly rank: number;
  readonly bytes: number;
}

/** Which lines: of one rank, or null for all, and there those that match. */
export interface LinesQuery extends LogPattern {
  readonly rank: number | null;
  readonly stderr: boolean;
  readonly onlyErrors: boolean;
}

export interface Server {
  /** The connection came up, or is lost. */
  readonly opened: ISignal<unknown, boolean>;

  /** Have a kernel's control thread do something, which it does also while a cell runs. */
  control(kernel: string, what: ControlName, given?: ReadonlyJSONObject): Promise<unknown>;

  runs(search: string, before: string | null, limit: number): Promise<RunPage>;
  run(run: string): Promise<RunDetails>;
  /** Return a run's record; null where there is none, or no longer. */
  runOrNull(run: string): Promise<RunRecord | null>;
  /** Return the final state of a run, by MIME type; null where it leaves none: it did not train, or is not over. */
  pictureOrNull(run: string): Promise<Record<string, string> | null>;
  deleteRun(run: string): Promise<void>;

  logSizes(run: string): Promise<LogSize[]>;
  /** Read lines of a log at a place; a call looks at a bounded part of it, and may find none. */
  lines(run: string, query: LinesQuery, place: LinesPlace, most?: number): Promise<LinesPage>;
  /** Return the address of a rank's whole log, or of all ranks' merged by time. */
  logFileUrl(run: string, rank: number | null): string;

  devices(): Promise<Device[]>;
  /** What the server's host has for ranks; null where it does not say. */
  hostRoom(): Promise<HostRoom | null>;
  /** The queue of the server's host, and the profiles; it rejects where a file of profiles breaks a rule. */
  places(): Promise<Place[]>;

  /** Make a batch job of a notebook; return what was written, and how it is sent. */
  export(notebook: string, request: ExportRequest): Promise<string>;

  /** A small notebook that trains on two ranks, as its file has it. */
  example(): Promise<unknown>;

  /** The clusters that run though the kernel that started them is gone. */
  keptClusters(): Promise<KeptCluster[]>;
  stopCluster(name: string): Promise<void>;

  /** The batch jobs of this user's that wait or run; it rejects where the scheduler does not answer. */
  jobs(): Promise<BatchJob[]>;
  endJob(job: string): Promise<void>;
}

/** Return what went wrong, as a sentence. */
export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
