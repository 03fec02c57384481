// The arguments of a command.

export type Given = Readonly<Record<string, unknown>>;

/** Return an argument; an empty text where it is not there. */
export function textOf(given: Given, name: string): string {
  return typeof given[name] === 'string' ? given[name] : '';
}

/** Return an argument that is a list of texts; what is none is left out, and what comes again. */
export function textsOf(given: Given, name: string): string[] {
  const found: unknown = given[name];
  return Array.isArray(found) ? [...new Set(found.filter((one) => typeof one === 'string'))] : [];
}
