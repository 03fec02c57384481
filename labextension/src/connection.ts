// The only I/O of the extension: one WebSocket to the hub, and its REST calls. Whose base_url and token, ServerConnection says.
import { URLExt } from '@jupyterlab/coreutils';
import type { ServerConnection } from '@jupyterlab/services';
import type { ReadonlyJSONObject } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';
import type { FromBrowser, ToBrowser } from './model/hub_messages';
import { parseHubMessage, parseRunBatch, type RunBatch } from './model/parse_hub';
import type { BatchJob } from './model/jobs';
import type { KeptCluster } from './model/kept';
import type { RunWire } from './model/live';
import type { LinesPage, LinesPlace } from './model/log_window';
import { isRecord } from './model/parse';
import { linesAsked, linesPageOf } from './model/parse_lines';
import { type ClusterSummary, outcomesOf, type Overview, overviewOf, type StopOutcome } from './model/overview';
import type { ExportRequest, Place } from './model/place';
import { type OutputsPage, outputsPageOf } from './model/rank_outputs';
import { factsOf } from './model/run_facts';
import { type Query, queryOf } from './model/run_filter';
import { runValuesOf, type RunValues } from './model/run_values';
import { recordOf, runPageOf, type RunPage, type RunRecord } from './model/runs';
import { type BoardOf, type ControlName, type LabelChange, type LinesQuery, type LogSize, placeOf, type RunDetails, type RunFile, type RunReport, type Server } from './model/server';
import type { Device, HostRoom } from './model/start';
import type { Words } from './model/words';
import { listOf, PATH, Rest } from './rest';

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

export class Connection implements RunWire, Server {
  private socket: WebSocket | null = null;
  private waitMs = FIRST_WAIT_MS;
  private timer = 0;
  private isDisposed = false;
  private sent = 0;
  private readonly waiting = new Map<string, Waiting>();
  private readonly _opened = new Signal<this, boolean>(this);
  private readonly _message = new Signal<this, ToBrowser>(this);
  private readonly _batch = new Signal<this, RunBatch>(this);
  private readonly rest: Rest;

  constructor(private readonly settings: ServerConnection.ISettings, private readonly trans: Words) {
    this.rest = new Rest(settings);
  }

  get opened(): ISignal<this, boolean> {
    return this._opened;
  }

  get message(): ISignal<this, ToBrowser> {
    return this._message;
  }

  /** Events of a run that is watched. */
  get batch(): ISignal<this, RunBatch> {
    return this._batch;
  }

  /** Connect, and again whenever the connection is lost. */
  open(): void {
    const { settings } = this;
    const token = settings.appendToken && settings.token !== '' ? `?token=${encodeURIComponent(settings.token)}` : '';
    const socket = new settings.WebSocket(URLExt.join(settings.wsUrl, PATH, 'live') + token);
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => {
      this.waitMs = FIRST_WAIT_MS;
      this._opened.emit(true);
    };
    socket.onmessage = (event: MessageEvent<unknown>) => this.receive(event.data);
    socket.onclose = () => this.lost();
    this.socket = socket;
  }

  dispose(): void {
    this.isDisposed = true;
    window.clearTimeout(this.timer);
    this.socket?.close();
  }

  /** Have a kernel's control thread do something, which it does also while a cell runs.
   *
   * @throws Error with the hub's sentence when it could not.
   */
  control(kernel: string, what: ControlName, given: ReadonlyJSONObject = {}): Promise<unknown> {
    const id = String(++this.sent);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      if (!this.send({ type: 'control', id, kernel, do: what, arguments: given })) {
        this.waiting.delete(id);
        reject(new Error(this.trans.__('The Jupyter server does not answer. It is being asked again by itself.')));
      }
    });
  }

  watch(run: string, next: number): void {
    this.send({ type: 'watch', run, next });
  }

  unwatch(run: string): void {
    this.send({ type: 'unwatch', run });
  }

  taken(run: string, next: number): void {
    this.send({ type: 'taken', run, next });
  }

  async runs(search: string, before: string | null, limit: number): Promise<RunPage> {
    const page: Query = [['limit', String(limit)], ...(before === null ? [] : [['before', before] as const])];
    return runPageOf(await this.rest.get(['runs'], [...queryOf(search), ...page]));
  }

  async runValues(search: string): Promise<RunValues> {
    return runValuesOf(await this.rest.get(['run-values'], queryOf(search)));
  }

  async run(run: string): Promise<RunDetails> {
    const found = await this.rest.get(['runs', run]);
    const record = needed(recordOf(found), run);
    const { cell, place, has_timeline: hasTimeline } = isRecord(found) ? found : {};
    return { record, cell: typeof cell === 'string' ? cell : '', place: placeOf(place), facts: factsOf(found), hasTimeline: hasTimeline === true };
  }

  async labelRun(run: string, change: LabelChange): Promise<RunRecord> {
    return needed(recordOf(await this.rest.request('PATCH', ['runs', run], [], JSON.stringify(change))), run);
  }

  async report(run: string, withCode: boolean): Promise<RunReport> {
    const found = await this.rest.post(['runs', run, 'report'], { with_code: withCode });
    const report = needed(listOf<RunReport>([found], ['file', 'parts', 'zip'])[0] ?? null, run);
    return { ...report, parts: listOf(report.parts, ['name', 'bytes', 'note']) };
  }

  async runOrNull(run: string): Promise<RunRecord | null> {
    return recordOf(await this.rest.requestOrNull(['runs', run]));
  }

  async pictureOrNull(run: string): Promise<Record<string, string> | null> {
    const found = await this.rest.requestOrNull(['runs', run, 'picture']);
    return isRecord(found) ? Object.fromEntries(Object.entries(found).map(([type, text]) => [type, String(text)])) : null;
  }

  async deleteRun(run: string): Promise<void> {
    await this.rest.request('DELETE', ['runs', run]);
  }

  async openBoard(of: BoardOf): Promise<string> {
    const found = await this.rest.post(['boards'], of);
    return new URL(String(isRecord(found) ? found['path'] : ''), this.settings.baseUrl).href;
  }

  async logSizes(run: string): Promise<LogSize[]> {
    return listOf<LogSize>(await this.rest.get(['runs', run, 'logs']), ['rank', 'bytes']);
  }

  async lines(run: string, query: LinesQuery, place: LinesPlace, most?: number): Promise<LinesPage> {
    return linesPageOf(await this.rest.get(['runs', run, 'lines'], linesAsked(query, place, most)));
  }

  async rankOutputs(run: string, rank: number, after: number): Promise<OutputsPage> {
    const asked = Object.entries({ rank: String(rank), after: String(after) });
    return outputsPageOf(await this.rest.get(['runs', run, 'outputs'], asked));
  }

  fileUrl(run: string, file: RunFile, query: Readonly<Record<string, number>> = {}): string {
    const { baseUrl, appendToken, token } = this.settings;
    const asked = { ...query, ...(appendToken && token !== '' ? { token } : {}) };
    return URLExt.join(baseUrl, PATH, 'runs', encodeURIComponent(run), file) + URLExt.objectToQueryString(asked);
  }

  timeline(run: string, first: number): Promise<unknown> {
    return this.rest.get(['runs', run, 'timeline'], [['first', String(first)]]);
  }

  async devices(): Promise<Device[]> {
    const fields = ['index', 'name', 'uuid', 'device', 'total_bytes', 'free_bytes'];
    return listOf<Device>(await this.rest.get(['devices']), fields);
  }

  async hostRoom(): Promise<HostRoom | null> {
    return listOf<HostRoom>([await this.rest.get(['host'])], ['cores', 'free_bytes', 'ranks'])[0] ?? null;
  }

  async places(): Promise<Place[]> {
    const fields = ['profile', 'launcher', 'title', 'description', 'ranks', 'nodes', 'ntasks_per_node', 'time', 'partition'];
    return listOf<Place>(await this.rest.get(['places']), [...fields, 'most_ranks', 'most_nodes', 'most_time']);
  }

  async export(notebook: string, request: ExportRequest): Promise<string> {
    const found = await this.rest.post(['export'], { notebook, ...request });
    return isRecord(found) && typeof found['text'] === 'string' ? found['text'] : '';
  }

  example(): Promise<unknown> {
    return this.rest.get(['example']);
  }

  async keptClusters(): Promise<KeptCluster[]> {
    return listOf<KeptCluster>(await this.rest.get(['clusters']), ['name', 'world_size', 'devices', 'start_s']);
  }

  async stopCluster(name: string): Promise<void> {
    await this.rest.request('DELETE', ['clusters', name]);
  }

  async overview(): Promise<Overview> {
    return overviewOf(await this.rest.get(['overview'], [['jupyterhub', '1']]));
  }

  async hubOverview(): Promise<Overview> {
    return overviewOf(await this.rest.get(['hub-overview']));
  }

  async stopIdle(clusters: readonly string[], idleS: number): Promise<ReadonlyMap<string, StopOutcome>> {
    return outcomesOf(await this.rest.post(['overview', 'stop'], { clusters, idle_s: idleS }));
  }

  async stopIdleInHub(clusters: readonly ClusterSummary[], idleS: number): Promise<ReadonlyMap<string, StopOutcome>> {
    const named = clusters.map(({ user, server, id }) => ({ user, server, id }));
    return outcomesOf(await this.rest.post(['hub-overview', 'stop'], { clusters: named, idle_s: idleS }));
  }

  async jobs(): Promise<BatchJob[]> {
    const fields = ['job', 'title', 'name', 'world_size', 'state', 'text', 'ends_at_s'];
    return listOf<BatchJob>(await this.rest.get(['jobs']), fields);
  }

  async endJob(job: string): Promise<void> {
    await this.rest.request('DELETE', ['jobs', job]);
  }

  private receive(data: unknown): void {
    if (data instanceof ArrayBuffer) {
      const batch = parseRunBatch(data);
      if (batch !== null) {
        this._batch.emit(batch);
      }
      // Its readers are done. The browser would free its bytes only when it collects all the page's garbage, and would do so
      // more often for them.
      data.transfer?.(0);
      return;
    }
    const message = parseHubMessage(String(data));
    if (message?.type === 'answer') {
      this.answered(message.id, message.result, message.error);
    } else if (message !== null) {
      this._message.emit(message);
    }
  }

  private answered(id: string, result: unknown, error: string | null): void {
    const waiting = this.waiting.get(id);
    this.waiting.delete(id);
    if (error === null) {
      waiting?.resolve(result);
    } else {
      waiting?.reject(new Error(error));
    }
  }

  private lost(): void {
    this.socket = null;
    for (const { reject } of this.waiting.values()) {
      reject(new Error(this.trans.__('The connection to the Jupyter server was lost before it answered.')));
    }
    this.waiting.clear();
    if (!this.isDisposed) {
      this._opened.emit(false);
      this.timer = window.setTimeout(() => this.open(), this.waitMs);
      this.waitMs = Math.min(LONGEST_WAIT_MS, 2 * this.waitMs);
    }
  }

  private send(message: FromBrowser): boolean {
    if (this.socket?.readyState !== WebSocket.OPEN) {
      return false;
    }
    this.socket.send(JSON.stringify(message));
    return true;
  }
}

function needed<T>(found: T | null, run: string): T {
  if (found === null) {
    throw new TypeError(`The server must tell of the run ${run}. Received: something else.`);
  }
  return found;
}
