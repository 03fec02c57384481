// Requests to the hub, below the server's base_url, and what is taken of their answers.
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { isRecord } from './model/parse';
import type { Query } from './model/run_filter';

/** Below base_url. */
export const PATH = 'jupyter-ddl';

export class Rest {
  constructor(private readonly settings: ServerConnection.ISettings) {}

  /** @throws ServerConnection.ResponseError with the hub's sentence. */
  async request(method: string, path: readonly string[], query: Query = [], body: string | null = null): Promise<unknown> {
    const { settings } = this;
    const asked = query.map((pair) => pair.map(encodeURIComponent).join('=')).join('&');
    const url = URLExt.join(settings.baseUrl, PATH, ...path.map(encodeURIComponent)) + (asked === '' ? '' : `?${asked}`);
    const response = await ServerConnection.makeRequest(url, { method, body }, settings);
    if (!response.ok) {
      throw await ServerConnection.ResponseError.create(response);
    }
    return response.status === 204 ? null : ((await response.json()) as unknown);
  }

  get(path: readonly string[], query: Query = []): Promise<unknown> {
    return this.request('GET', path, query);
  }

  /** @param body what becomes the request's JSON. */
  post(path: readonly string[], body: object): Promise<unknown> {
    return this.request('POST', path, [], JSON.stringify(body));
  }

  /** Return what is there; null for what is not. */
  async requestOrNull(path: readonly string[]): Promise<unknown> {
    try {
      return await this.get(path);
    } catch (error) {
      if (error instanceof ServerConnection.ResponseError && error.response.status === 404) {
        return null;
      }
      throw error;
    }
  }
}

/** Return the objects of a list that have the fields. */
export function listOf<T>(value: unknown, fields: readonly string[]): T[] {
  const items = Array.isArray(value) ? (value as unknown[]) : [];
  return items.filter((item): item is T => isRecord(item) && fields.every((name) => name in item));
}
