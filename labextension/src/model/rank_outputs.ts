// What one rank showed in a run, as the server sends it. No DOM.
import type { JSONObject } from '@lumino/coreutils';
import { isRecord } from './parse';

export type RankOutput =
  | { readonly type: 'stream'; readonly name: 'stdout' | 'stderr'; readonly text: string }
  | { readonly type: 'display' | 'update' | 'result'; readonly data: JSONObject; readonly metadata: JSONObject; readonly displayId: string | null }
  | { readonly type: 'error'; readonly name: string; readonly message: string; readonly traceback: readonly string[] }
  | { readonly type: 'clear'; readonly wait: boolean };

export interface OutputsPage {
  /** Where the next page begins; where this one began, if there is nothing more yet. */
  readonly next: number;
  readonly outputs: readonly RankOutput[];
}

export function outputsPageOf(value: unknown): OutputsPage {
  const page = isRecord(value) ? value : {};
  const outputs = Array.isArray(page['outputs']) ? page['outputs'].filter(isRecord) : [];
  return { next: Number(page['next']), outputs: outputs.map(outputOf).filter((output) => output !== null) };
}

function outputOf(found: Record<string, unknown>): RankOutput | null {
  const { type } = found;
  switch (type) {
    case 'stream':
      return { type, name: found['name'] === 'stderr' ? 'stderr' : 'stdout', text: String(found['text']) };
    case 'display':
    case 'update':
    case 'result': {
      const { data, metadata, display_id: id } = found;
      // It came as JSON.
      const bundle = (given: unknown): JSONObject => (isRecord(given) ? (given as JSONObject) : {});
      return { type, data: bundle(data), metadata: bundle(metadata), displayId: typeof id === 'string' ? id : null };
    }
    case 'error': {
      const lines = Array.isArray(found['traceback']) ? found['traceback'].map(String) : [];
      return { type, name: String(found['name']), message: String(found['message']), traceback: lines };
    }
    case 'clear':
      return { type, wait: found['wait'] === true };
    default:
      return null;
  }
}
