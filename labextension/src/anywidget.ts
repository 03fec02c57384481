// What is used of anywidget's model: https://anywidget.dev/en/afm/

export interface AnyModel<T> {
  get<K extends keyof T>(name: K): T[K];
  on(event: string, callback: () => void): void;
  off(event: string, callback: () => void): void;
  send(content: unknown): void;
}
