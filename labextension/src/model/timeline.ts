// Where the time of a run's steps went, as the hub says it, and which part of some steps a picture shows. No DOM.
import { isRecord } from './parse';

/** From when until when, in microseconds since the timeline's beginning. */
export type Span = readonly [begin: number, end: number];

export interface TimelineStep {
  /** From 0. */
  readonly number: number;
  readonly begin_us: number;
  /** Rank and when it had handed its last tensor over; rank 0 alone where more is not known. */
  readonly handed_us: readonly (readonly [rank: number, at: number])[];
  readonly ready_us: number;
  readonly end_us: number;
  readonly exchanges: readonly Span[];
  readonly copies: readonly Span[];
  /** Which rank was the last, how much later than the one before it, and for which tensor the others waited. */
  readonly late: readonly [rank: number, byUs: number, tensor: string] | null;
}

export const FIGURES = ['step_us', 'exchange_us', 'exposed_us', 'collective_us', 'copies_us', 'queue_us', 'hidden_us'] as const;
export type Figure = (typeof FIGURES)[number];

export interface TimelineRank {
  readonly compute_us: number;
  readonly wait_us: number;
  /** In how many steps it was the last; null where that is not known. */
  readonly last: number | null;
  readonly late_us: number;
  /** The step in which it was latest, from 0. */
  readonly worst: { readonly step: number } | null;
}

export interface TimelineTensor {
  readonly name: string;
  readonly count: number;
  readonly bytes: number | null;
  readonly wait_us: number;
  readonly exchange_us: number;
  readonly longest_us: number;
  readonly fused: number;
  readonly bus_bytes_per_s: number | null;
}

export interface Timeline {
  readonly steps: number;
  readonly ranks: number | null;
  readonly cut_off: boolean;
  /** What can be gained, as the server says it. */
  readonly findings: readonly string[];
  /** Empty where there is no step. */
  readonly figures: Readonly<Partial<Record<Figure, { readonly median: number }>>>;
  readonly by_rank: Readonly<Record<string, TimelineRank>>;
  readonly tensors: readonly TimelineTensor[];
  readonly picture: readonly TimelineStep[];
}

/** @throws TypeError for what is no timeline. */
export function timelineOf(value: unknown): Timeline {
  if (!isRecord(value) || !Array.isArray(value['picture'])) {
    throw new TypeError('The server must tell of the timeline. Received: something else.');
  }
  return value as unknown as Timeline;
}

/** Return the step that most was waited in, for the rank that was waited for longest in all; null where none is known. */
export function worstStep({ by_rank: ranks }: Timeline): number | null {
  const [slowest] = Object.values(ranks).sort((a, b) => b.late_us - a.late_us);
  return slowest?.worst?.step ?? null;
}

/** What all steps of a picture take. */
export function whole(steps: readonly TimelineStep[]): Span {
  return steps.length === 0 ? [0, 1] : [steps[0]!.begin_us, steps.at(-1)!.end_us];
}

/** Zoom by a factor around a moment, and show no more than all. */
export function zoomed([begin, end]: Span, factor: number, at: number, all: Span): Span {
  const length = Math.max(1, (end - begin) * factor);
  return length >= all[1] - all[0] ? all : moved([at - ((at - begin) * length) / (end - begin), length], all);
}

/** Show a part that begins elsewhere, within all. */
export function shifted([begin, end]: Span, byUs: number, all: Span): Span {
  return moved([begin + byUs, end - begin], all);
}

function moved([begin, length]: Span, [first, last]: Span): Span {
  const from = Math.max(first, Math.min(begin, last - length));
  return [from, from + length];
}
