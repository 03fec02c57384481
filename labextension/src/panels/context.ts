// What the panels share.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ReadonlyJSONObject } from '@lumino/coreutils';
import type { HubModel } from '../model/hub';
import type { LiveRuns } from '../model/live';

export interface Context {
  readonly hub: HubModel;
  readonly runs: LiveRuns;
  /** Execute a command; nothing happens where the plugin that has it is disabled. */
  readonly act: (command: string, given?: ReadonlyJSONObject) => void;
  /** Execute a command, and return what went wrong, as a sentence; empty where nothing did. */
  readonly ask: (command: string, given: Readonly<Record<string, string>>) => Promise<string>;
  /** Whether a command is there. */
  readonly can: (command: string) => boolean;
  readonly trans: TranslationBundle;
  /** Where a kernel's notebook is, for people: its path, or its kernel's name. */
  readonly nameOf: (kernel: string) => string;
}
