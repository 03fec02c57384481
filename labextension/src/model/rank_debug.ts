// A debugger's requests to one rank, through the hub, and its events, which are asked for. No DOM.
import type { JSONObject } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';
import { isRecord } from './parse';
import { sentence, type Server } from './server';

type Asks = Pick<Server, 'control'>;

/** A response of the Debug Adapter Protocol. */
export type DebugAnswer = Readonly<Record<string, unknown>>;

export class RankDebug {
  private readonly _events = new Signal<this, JSONObject>(this);
  private readonly _ended = new Signal<this, string>(this);
  private state: 'new' | 'followed' | 'ended' = 'new';
  private after = -1;
  private variables: Promise<DebugAnswer> | null = null;

  constructor(
    private readonly server: Asks,
    readonly kernel: string,
    readonly rank: number,
  ) {}

  /** An event of the protocol. */
  get events(): ISignal<this, JSONObject> {
    return this._events;
  }

  /** It is over: with why, or, where the user ended it, an empty text. */
  get ended(): ISignal<this, string> {
    return this._ended;
  }

  get isOver(): boolean {
    return this.state === 'ended';
  }

  /** Note which events there were; `events` has those that come from here on. */
  async begin(): Promise<void> {
    this.after = numberOf(await this.ask({ command: 'events', arguments: { after: -1 } }), 'after');
  }

  /** Return the rank's answer; one that says why where there is none. */
  request(message: JSONObject): Promise<DebugAnswer> {
    if (message['command'] !== 'inspectVariables') {
      return this.send(message);
    }
    // JupyterLab asks for them at each output of a cell.
    this.variables ??= this.send(message).finally(() => (this.variables = null));
    return this.variables;
  }

  dispose(): void {
    this.state = 'ended';
    Signal.clearData(this);
  }

  private async send(message: JSONObject): Promise<DebugAnswer> {
    try {
      const answer = await this.ask(message);
      this.note(message['command'], answer);
      return answer;
    } catch (error) {
      return { type: 'response', command: message['command'], request_seq: message['seq'], success: false, message: sentence(error), body: {} };
    }
  }

  private note(command: unknown, answer: DebugAnswer): void {
    const body = isRecord(answer['body']) ? answer['body'] : {};
    if (command === 'disconnect') {
      this.end('');
    } else if (answer['success'] === true && (command === 'initialize' || (command === 'debugInfo' && body['isStarted'] === true))) {
      void this.follow();
    }
  }

  private async follow(): Promise<void> {
    if (this.state !== 'new') {
      return;
    }
    this.state = 'followed';
    try {
      while (!this.isOver) {
        const answer = await this.ask({ command: 'events', arguments: { after: this.after } });
        this.tell(isRecord(answer['body']) ? answer['body'] : {});
        this.after = numberOf(answer, 'after');
      }
    } catch (error) {
      this.end(sentence(error));
    }
  }

  private tell(body: Readonly<Record<string, unknown>>): void {
    const events = Array.isArray(body['events']) ? body['events'] : [];
    events.filter(isRecord).forEach((event) => this._events.emit(event as JSONObject));
    if (body['isStarted'] === false) {
      this.end('');
    }
  }

  private end(why: string): void {
    if (!this.isOver) {
      this.state = 'ended';
      this._ended.emit(why);
    }
  }

  private async ask(message: JSONObject): Promise<DebugAnswer> {
    const answer = await this.server.control(this.kernel, 'debug', { rank: this.rank, message });
    return isRecord(answer) ? answer : {};
  }
}

function numberOf(answer: DebugAnswer, name: string): number {
  const body = answer['body'];
  const value = isRecord(body) ? body[name] : null;
  return typeof value === 'number' ? value : 0;
}

/** Return the number of the first line of a cell that may hold it: below its magic, and no comment; 0 where there is none. */
export function firstLine(source: string): number {
  const lines = source.split('\n');
  return lines.findIndex((line) => /^\s*[^\s#%]/.test(line)) + 1;
}
