// Whether this server has a run. It is asked once; again only where the hub tells something of the run that the server did
// not have, or is back after it did not answer. JupyterLab makes a new renderer at each change of an output. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import type { HubModel } from './hub';
import type { Notice } from './notice';
import type { Server } from './server';

export class RunPresence {
  private answer: Promise<boolean> | null = null;
  private isLacking = false;
  private readonly _outdated = new Signal<this, void>(this);

  constructor(
    private readonly server: Pick<Server, 'opened' | 'runOrNull'>,
    private readonly hub: Pick<HubModel, 'noticed'>,
    readonly run: string,
  ) {
    hub.noticed.connect(this.noticed, this);
    server.opened.connect(this.opened, this);
  }

  /** The answer that the run is not there is outdated. */
  get outdated(): ISignal<this, void> {
    return this._outdated;
  }

  /** Return whether it is there; where the server does not answer, it is not. */
  isThere(): Promise<boolean> {
    return (this.answer ??= this.ask());
  }

  dispose(): void {
    this.hub.noticed.disconnect(this.noticed, this);
    this.server.opened.disconnect(this.opened, this);
    Signal.clearData(this);
  }

  private async ask(): Promise<boolean> {
    const record = await this.server.runOrNull(this.run).catch(() => null);
    this.isLacking = record === null;
    return record !== null;
  }

  private noticed(_: unknown, { run }: Notice): void {
    if (run === this.run) {
      this.forget();
    }
  }

  private opened(_: unknown, isOpen: boolean): void {
    if (isOpen) {
      this.forget();
    }
  }

  private forget(): void {
    if (this.isLacking) {
      this.isLacking = false;
      this.answer = null;
      this._outdated.emit();
    }
  }
}

/** Those that the outputs of one notebook lack. */
export class RunPresences {
  private readonly found = new Map<string, RunPresence>();

  constructor(
    private readonly server: Pick<Server, 'opened' | 'runOrNull'>,
    private readonly hub: Pick<HubModel, 'noticed'>,
  ) {}

  of(run: string): RunPresence {
    let presence = this.found.get(run);
    if (presence === undefined) {
      presence = new RunPresence(this.server, this.hub, run);
      this.found.set(run, presence);
      void presence.isThere().then((isThere) => isThere && this.forget(run));
    }
    return presence;
  }

  dispose(): void {
    [...this.found.keys()].forEach((run) => this.forget(run));
  }

  /** One that is there may be deleted: another output asks for it again. */
  private forget(run: string): void {
    this.found.get(run)?.dispose();
    this.found.delete(run);
  }
}
