// What models ask of the Jupyter server. The connection is one; tests have their own. No DOM.
import type { ReadonlyJSONObject } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import type { BatchJob } from './jobs';
import type { KeptCluster } from './kept';
import type { LogPattern } from './log_model';
import type { LinesPage, LinesPlace } from './log_window';
import type { ClusterSummary, Overview, StopOutcome } from './overview';
import { isRecord } from './parse';
import type { ExportRequest, Place } from './place';
import type { OutputsPage } from './rank_outputs';
import type { RunFacts } from './run_facts';
import type { RunValues } from './run_values';
import type { RunPage, RunRecord } from './runs';
import type { Device, HostRoom } from './start';

export type ControlName = 'interrupt' | 'stop' | 'restart' | 'keep' | 'stacks' | 'profile' | 'complete' | 'inspect' | 'debug';

/** Where a run's notebook is among the server's files, or why it is not: the run has none, it is outside them, or gone. */
export interface NotebookPlace {
  readonly path: string | null;
  readonly problem: 'none' | 'outside' | 'gone' | null;
}

export interface RunDetails {
  readonly record: RunRecord;
  readonly cell: string;
  readonly facts: RunFacts;
  readonly place: NotebookPlace;
  /** Whether its timeline was recorded. */
  readonly hasTimeline: boolean;
}

export type RunFile = 'log-file' | 'timeline-file';

/** What a run's user says of it, as it is to change; what is left out stays. */
export interface LabelChange {
  /** Empty to remove it, as a note. */
  readonly name?: string;
  readonly note?: string;
  readonly remove_tags?: readonly string[];
  readonly add_tags?: readonly string[];
}

export interface ReportPart {
  readonly name: string;
  readonly bytes: number;
  readonly note: string;
}

/** The file for support: its name, what is in it, and itself in base64. */
export interface RunReport {
  readonly file: string;
  readonly parts: readonly ReportPart[];
  readonly zip: string;
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

/** What TensorBoard is to show. */
export type BoardOf = { readonly run: string } | { readonly folder: string };

export interface Server {
  /** The connection came up, or is lost. */
  readonly opened: ISignal<unknown, boolean>;

  /** Have a kernel's control thread do something, which it does also while a cell runs. */
  control(kernel: string, what: ControlName, given?: ReadonlyJSONObject): Promise<unknown>;

  /** Return a page of the runs that a text of the search field means (`model/run_filter`). */
  runs(search: string, before: string | null, limit: number): Promise<RunPage>;
  /** Return how many runs a text of the search field means, and what there is to choose by. */
  runValues(search: string): Promise<RunValues>;
  run(run: string): Promise<RunDetails>;
  /** Return a run's record; null where there is none, or no longer. */
  runOrNull(run: string): Promise<RunRecord | null>;
  /** Return the final state of a run, by MIME type; null where it leaves none: it did not train, or is not over. */
  pictureOrNull(run: string): Promise<Record<string, string> | null>;
  /** Change a run's name, note or tags; return what is known of it then. */
  labelRun(run: string, change: LabelChange): Promise<RunRecord>;
  deleteRun(run: string): Promise<void>;
  /** Have the server show it in TensorBoard; return the page's address. */
  openBoard(of: BoardOf): Promise<string>;
  /** Make the file for support; it takes the seconds that the checks of the server's host take. */
  report(run: string, withCode: boolean): Promise<RunReport>;

  logSizes(run: string): Promise<LogSize[]>;
  /** Read lines of a log at a place; a call looks at a bounded part of it, and may find none. */
  lines(run: string, query: LinesQuery, place: LinesPlace, most?: number): Promise<LinesPage>;
  /** Read what a rank showed behind a place of its events; 0 is the beginning. */
  rankOutputs(run: string, rank: number, after: number): Promise<OutputsPage>;
  /** Where the time of a run's steps went, with some of them from one on, counted from 0 (`model/timeline`). */
  timeline(run: string, first: number): Promise<unknown>;
  /** Return the address of a file of a run: a `rank`'s whole log, or of all ranks' merged by time; its timeline. */
  fileUrl(run: string, file: RunFile, query?: Readonly<Record<string, number>>): string;

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

  /** All clusters of this server, for who looks after others. */
  overview(): Promise<Overview>;
  /** Those of all servers of the JupyterHub; it rejects where the user may not look at them. */
  hubOverview(): Promise<Overview>;
  /** Stop those that have been idle for some seconds, and still are; return what became of each, by its id. */
  stopIdle(clusters: readonly string[], idleS: number): Promise<ReadonlyMap<string, StopOutcome>>;
  /** The same in the JupyterHub; by their keys (`overview.keyOf`). */
  stopIdleInHub(clusters: readonly ClusterSummary[], idleS: number): Promise<ReadonlyMap<string, StopOutcome>>;

  /** The batch jobs of this user's that wait or run; it rejects where the scheduler does not answer. */
  jobs(): Promise<BatchJob[]>;
  endJob(job: string): Promise<void>;
}

/** Return what went wrong, as a sentence. */
export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Return where a notebook is, as the server says it; one that says nothing is an older server. */
export function placeOf(value: unknown): NotebookPlace {
  const { path, problem } = isRecord(value) ? value : {};
  const known = (['none', 'outside', 'gone'] as const).find((one) => one === problem) ?? null;
  return typeof path === 'string' ? { path, problem: known } : { path: null, problem: known ?? 'none' };
}
