// The arguments of a command.

export type Given = Readonly<Record<string, unknown>>;

/** Return an argument; an empty text where it is not there. */
export function textOf(given: Given, name: string): string {
  return typeof given[name] === 'string' ? given[name] : '';
}
