// The names of a step's parts.
import type { Words } from './words';

export function partName(part: 'compute' | 'exchange' | 'input', trans: Words): string {
  return { compute: trans.__('compute'), exchange: trans.__('exchange'), input: trans.__('input') }[part];
}
