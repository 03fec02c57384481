// What translates texts: JupyterLab's bundle in the panel. The widget elsewhere speaks English.
import { whole } from './number_texts';

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

/** Return `1,024 ranks`. */
export function ranksText(count: number, trans: Words): string {
  return trans._n('%2 rank', '%2 ranks', count, whole(count));
}

function fill(message: string, values: readonly unknown[]): string {
  return message.replace(/%(\d)/g, (place, at: string) => String(values[Number(at) - 1] ?? place));
}
