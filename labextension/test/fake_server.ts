// A server as the models see one, whose answers come when a test lets them: of reads that overtake each other, and of a
// connection that is lost meanwhile.
import { Signal } from '@lumino/signaling';
import type { RunPage, RunRecord } from '../src/model/runs';
import type { Server } from '../src/model/server';

interface Asked {
  readonly what: string;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

export class FakeServer implements Server {
  readonly opened = new Signal<this, boolean>(this);
  private readonly asked: Asked[] = [];

  readonly control = this.asks<Server['control']>('control');
  readonly runs = this.asks<Server['runs']>('runs');
  readonly run = this.asks<Server['run']>('run');
  readonly runValues = this.asks<Server['runValues']>('runValues');
  readonly labelRun = this.asks<Server['labelRun']>('labelRun');
  readonly report = this.asks<Server['report']>('report');
  readonly runOrNull = this.asks<Server['runOrNull']>('runOrNull');
  readonly pictureOrNull = this.asks<Server['pictureOrNull']>('pictureOrNull');
  readonly deleteRun = this.asks<Server['deleteRun']>('deleteRun');
  readonly openBoard = this.asks<Server['openBoard']>('openBoard');
  readonly logSizes = this.asks<Server['logSizes']>('logSizes');
  /** Asked for by the fewest words that tell one question from another. */
  readonly lines: Server['lines'] = (run, { rank, stderr, text, isExpression, isExact, onlyErrors }, place, most) => {
    const what = [rank ?? 'all', stderr && 'stderr', onlyErrors && 'errors', text && `/${text}/`, isExpression && 'regex', isExact && 'case'];
    const where = place === 'end' ? 'end' : Object.entries(place).flat().join(' ');
    return this.ask('lines', run, ...what.filter((word) => word !== false && word !== ''), where, ...(most === undefined ? [] : [`most ${most}`]));
  };
  readonly rankOutputs = this.asks<Server['rankOutputs']>('rankOutputs');
  readonly timeline = this.asks<Server['timeline']>('timeline');
  readonly fileUrl = (run: string, file: string, query: object = {}): string => [run, file, ...Object.values(query)].join(' ');
  readonly devices = this.asks<Server['devices']>('devices');
  readonly hostRoom = this.asks<Server['hostRoom']>('hostRoom');
  readonly places = this.asks<Server['places']>('places');
  readonly export = this.asks<Server['export']>('export');
  readonly example = this.asks<Server['example']>('example');
  readonly keptClusters = this.asks<Server['keptClusters']>('keptClusters');
  readonly overview = this.asks<Server['overview']>('overview');
  readonly hubOverview = this.asks<Server['hubOverview']>('hubOverview');
  readonly stopIdle = this.asks<Server['stopIdle']>('stopIdle');
  readonly stopIdleInHub = this.asks<Server['stopIdleInHub']>('stopIdleInHub');
  readonly jobs = this.asks<Server['jobs']>('jobs');
  readonly endJob = this.asks<Server['endJob']>('endJob');
  readonly stopCluster = this.asks<Server['stopCluster']>('stopCluster');

  /** What waits for an answer, in the order in which it was asked. */
  get waiting(): string[] {
    return this.asked.map(({ what }) => what);
  }

  /** Answer the first request of that text, and let whoever asked go on. */
  async answer(what: string, value: unknown): Promise<void> {
    this.take(what).resolve(value);
    await settled();
  }

  /** Answer the last request of that text first: answers come in any order. */
  async answerLast(what: string, value: unknown): Promise<void> {
    this.asked.reverse();
    const asked = this.take(what);
    this.asked.reverse();
    asked.resolve(value);
    await settled();
  }

  async refuse(what: string, text: string): Promise<void> {
    this.take(what).reject(new Error(text));
    await settled();
  }

  private asks<F extends (...given: never[]) => Promise<unknown>>(name: string): F {
    return ((...given: unknown[]) => this.ask(name, ...given)) as unknown as F;
  }

  private ask<T>(...words: unknown[]): Promise<T> {
    return new Promise((resolve, reject) => this.asked.push({ what: words.map(String).join(' '), resolve: resolve as (value: unknown) => void, reject }));
  }

  private take(what: string): Asked {
    const at = this.asked.findIndex((one) => one.what === what);
    if (at < 0) {
      throw new Error(`Nobody asks for ${what}. Waiting: ${this.waiting.join('; ')}.`);
    }
    return this.asked.splice(at, 1)[0]!;
  }
}

/** Let promises that can be settled settle. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) {
    await Promise.resolve();
  }
}

export function record(run: string, state = 'finished'): RunRecord {
  return { run, start_s: 0, ranks: [0], world_size: 1, state, seconds: null, samples_per_s: null, loss: null, model: null, computes_on: null, script: null, notebook: null, cell_id: null, cell_number: null, name: null, note: null, tags: [] };
}

/** Return runs from one number down to another, newest first, as a page of the list. */
export function page(from: number, to: number, next: string | null = null): RunPage {
  const runs = Array.from({ length: from - to + 1 }, (_, at) => record(`r${from - at}`));
  return { runs, more: next !== null, next };
}
