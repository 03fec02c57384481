// What translates texts: JupyterLab's bundle in the panel. The widget elsewhere speaks English.

/** The part of JupyterLab's TranslationBundle that models and components need. */
export interface Words {
  /** Return a message with %1, %2 ... replaced by values. */
  __(message: string, ...values: unknown[]): string;
  /** Return the form for `count`, which is %1; the values are %2, %3 ... */
  _n(one: string, many: string, count: number, ...values: unknown[]): string;
}

export const ENGLISH: Words = {
  __: (message, ...values) => fill(message, values),
  _n: (one, many, count, ...values) => fill(count === 1 ? one : many, [count, ...values]),
};

function fill(message: string, values: readonly unknown[]): string {
  return message.replace(/%(\d)/g, (place, at: string) => String(values[Number(at) - 1] ?? place));
}
