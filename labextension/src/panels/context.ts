// What the panels share.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { Connection } from '../connection';
import type { HubModel } from '../model/hub';
import type { LiveRuns } from '../model/live';

export interface Context {
  readonly hub: HubModel;
  readonly runs: LiveRuns;
  readonly connection: Connection;
  readonly commands: CommandRegistry;
  readonly trans: TranslationBundle;
  /** Where a kernel's notebook is, for people: its path, or its kernel's name. */
  readonly nameOf: (kernel: string) => string;
}

/** Return what went wrong, as a sentence. */
export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
