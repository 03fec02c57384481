// Numbers as they are read at a glance: the one formatter of all that is shown. Python has the same for its tables and
// pictures (jupyter_ddl/views/format.py); both are tested on schema/format.fixture.json.
import type { RankState } from '../model/rank';

export const NOTHING = '–';

export interface StateLook {
  readonly sign: string;
  readonly word: string;
}

/** Each state has a sign, a word and a colour (by class): each of them is enough to recognise it. */
export const LOOKS: Readonly<Record<RankState, StateLook>> = {
  waiting: { sign: '○', word: 'waiting' },
  running: { sign: '◔', word: 'running' },
  training: { sign: '●', word: 'training' },
  straggler: { sign: '▲', word: 'straggler' },
  finished: { sign: '✓', word: 'finished' },
  failed: { sign: '✕', word: 'failed' },
  released: { sign: '◇', word: 'released' },
  lost: { sign: '⌀', word: 'lost' },
};

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });
const SCIENTIFIC = new Intl.NumberFormat('en', { notation: 'scientific', maximumSignificantDigits: 3 });
const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });
const WHOLE_FROM = 100;
const WHOLE_TO = 1e15;
const PLAIN_FROM = 1e-4;
const GIB = 2 ** 30;

/** A number with three digits, or whole from 100 on: 0.00123, 12.3, 1,234, 1.2e-6; nan, inf and -inf. */
export function number(value: number | null | undefined): string {
  if (value == null) {
    return NOTHING;
  }
  if (!Number.isFinite(value)) {
    return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
  }
  const size = Math.abs(value);
  if (size === 0) {
    return '0';
  }
  if (size >= WHOLE_FROM && size < WHOLE_TO) {
    return WHOLE.format(value);
  }
  return size >= PLAIN_FROM && size < WHOLE_FROM ? SHORT.format(value) : SCIENTIFIC.format(value).replace('E', 'e');
}

/** A number for an axis, where there is little room. */
export function compact(value: number): string {
  return Math.abs(value) >= 1000 ? COMPACT.format(value) : String(Number(value.toPrecision(6)));
}

/** A loss is a number as all others are. */
export const loss: (value: number | null | undefined) => string = number;

/** A share as whole percents: 0.125 is 13%. */
export function percent(share: number | null | undefined): string {
  if (share == null) {
    return NOTHING;
  }
  return Number.isFinite(share) ? `${whole(share * 100)}%` : number(share);
}

/** A duration of a step: 12.3 ms. */
export function milliseconds(seconds: number | null | undefined): string {
  return seconds == null ? NOTHING : `${number(seconds * 1000)} ms`;
}

/** A size in memory: 2 GiB, 0.806 GiB. */
export function gibibytes(bytes: number | null | undefined): string {
  return bytes == null ? NOTHING : `${number(bytes / GIB)} GiB`;
}

/** A duration of a run: 0.45 s, 0:04, 1:07, 2:07:09. */
export function duration(seconds: number | null | undefined): string {
  if (seconds == null) {
    return NOTHING;
  }
  if (!Number.isFinite(seconds)) {
    return number(seconds);
  }
  return Math.abs(seconds) < 1 || Math.abs(seconds) >= WHOLE_TO ? `${number(seconds)} s` : clock(seconds);
}

/** A place on an axis of time: 0:04, 1:07, 2:07:09. */
export function clock(seconds: number): string {
  const rounded = Math.round(Math.abs(seconds));
  const minutes = Math.floor(rounded / 60);
  const hours = Math.floor(minutes / 60);
  const two = (value: number): string => String(value).padStart(2, '0');
  const sign = seconds < 0 && rounded > 0 ? '-' : '';
  return hours > 0 ? `${sign}${hours}:${two(minutes % 60)}:${two(rounded % 60)}` : `${sign}${minutes}:${two(rounded % 60)}`;
}

function whole(value: number): string {
  return Math.abs(value) >= WHOLE_TO ? number(value) : WHOLE.format(value).replace(/^-0$/, '0');
}
