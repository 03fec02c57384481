// A debugger's requests to one rank, through the hub, and its events, which are asked for. No DOM.
import type { JSONObject } from '@lumino/coreutils';
import { isRecord } from './parse';
import { sentence, type Server } from './server';

type Asks = Pick<Server, 'control'>;

/** A response of the Debug Adapter Protocol. */
export type DebugAnswer = Readonly<Record<string, unknown>>;

export class RankDebug {
  private state: 'new' | 'followed' | 'ended' = 'new';
  private variables: Promise<DebugAnswer> | null = null;

  /**
   * @param tell gets each event of the protocol.
   * @param tellEnd is called when it is over: with why, or, where the user ended it, an empty text.
   */
  constructor(
    private readonly server: Asks,
    private readonly kernel: string,
    readonly rank: number,
    private readonly tell: (event: JSONObject) => void,
    private readonly tellEnd: (why: string) => void,
  ) {}

  get isOver(): boolean {
    return this.state === 'ended';
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

  /** Ask for no more events. */
  dispose(): void {
    this.state = 'ended';
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
      // Those that come from here on.
      let after = -1;
      while (!this.isOver) {
        const { body } = await this.ask({ command: 'events', arguments: { after } });
        after = this.take(isRecord(body) ? body : {});
      }
    } catch (error) {
      this.end(sentence(error));
    }
  }

  private take({ events, after, isStarted }: Readonly<Record<string, unknown>>): number {
    (Array.isArray(events) ? events : []).filter(isRecord).forEach((event) => this.tell(event as JSONObject));
    if (isStarted !== true) {
      this.end('');
    }
    return Number(after);
  }

  private end(why: string): void {
    if (!this.isOver) {
      this.state = 'ended';
      this.tellEnd(why);
    }
  }

  private async ask(message: JSONObject): Promise<DebugAnswer> {
    const answer = await this.server.control(this.kernel, 'debug', { rank: this.rank, message });
    return isRecord(answer) ? answer : {};
  }
}

/** Return the number of the first line of a cell that may hold it: below its magic, and no comment; 0 where there is none. */
export function firstLine(source: string): number {
  const lines = source.split('\n');
  return lines.findIndex((line) => /^\s*[^\s#%]/.test(line)) + 1;
}
