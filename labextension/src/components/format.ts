// Numbers as they are read at a glance.
import type { RankState } from '../model/run';

export const NOTHING = '–';

export interface StateLook {
  readonly sign: string;
  readonly word: string;
}

/** Each state has a sign, a word and a colour (by class): no one of them is needed to tell it. */
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
const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

export function number(value: number | null | undefined): string {
  if (value == null) {
    return NOTHING;
  }
  if (!Number.isFinite(value)) {
    return Number.isNaN(value) ? 'NaN' : value > 0 ? '∞' : '−∞';
  }
  return Math.abs(value) >= 100 ? WHOLE.format(value) : SHORT.format(value);
}

/** A number for an axis, where there is little room. */
export function compact(value: number): string {
  return Math.abs(value) >= 1000 ? COMPACT.format(value) : String(Number(value.toPrecision(6)));
}

export function loss(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) {
    return number(value);
  }
  return value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(2) : value.toFixed(4);
}

export function percent(share: number | null | undefined): string {
  return share == null || !Number.isFinite(share) ? NOTHING : `${Math.round(share * 100)}%`;
}

export function milliseconds(seconds: number | null | undefined): string {
  if (seconds == null) {
    return NOTHING;
  }
  const ms = seconds * 1000;
  return `${ms >= 100 ? WHOLE.format(ms) : ms.toFixed(1)} ms`;
}

export function gibibytes(bytes: number | null | undefined): string {
  return bytes == null ? NOTHING : `${(bytes / 2 ** 30).toFixed(1)} GiB`;
}

export function duration(seconds: number): string {
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  const hours = Math.floor(minutes / 60);
  const two = (value: number): string => String(value).padStart(2, '0');
  return hours > 0 ? `${hours}:${two(minutes % 60)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}
