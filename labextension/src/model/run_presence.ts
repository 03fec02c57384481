// Whether this server has a run. It is asked once; again only where the hub tells something of the run that the server did
// not have, or is back after it did not answer. JupyterLab renders an output again with each line above it. No DOM.
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
