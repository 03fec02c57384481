// What a request for lines of a log says, and how its answer is read. No DOM.
import type { LinesPage, LinesPlace, LogLine, Timed } from './log_window';
import { isRecord } from './parse';
import type { Query } from './run_filter';
import type { LinesQuery } from './server';

const MILLION = 1_000_000;

const TIMED: readonly unknown[] = ['marked', 'events', 'evenly'];

export function linesPageOf(value: unknown): LinesPage {
  const page = isRecord(value) ? value : {};
  const timed = page['timed'];
  return {
    lines: rowsOf(page['lines']).map(lineOf),
    begin: String(page['begin']),
    next: String(page['next']),
    atStart: page['at_start'] === true,
    atEnd: page['at_end'] === true,
    unfinished: rowsOf(page['unfinished']).map(([rank, text]) => ({ rank: Number(rank), number: null, text: String(text), place: '', atUs: 0 })),
    beginShare: Number(page['begin_share']),
    nextShare: Number(page['next_share']),
    bytes: Number(page['bytes']),
    timed: TIMED.includes(timed) ? (timed as Timed) : null,
  };
}

function lineOf([rank, number, text, place, atUs]: readonly unknown[]): LogLine {
  return { rank: Number(rank), number: typeof number === 'number' ? number : null, text: String(text), place: String(place), atUs: Number(atUs) };
}

function rowsOf(value: unknown): readonly (readonly unknown[])[] {
  return Array.isArray(value) ? value.filter((row): row is unknown[] => Array.isArray(row)) : [];
}

/** Return what a request for lines asks for: which of them, and where. */
export function linesAsked(query: LinesQuery, place: LinesPlace, most?: number): Query {
  const flag = (is: boolean): string => (is ? '1' : '0');
  const where = place === 'end' ? {} : 'share' in place ? { share: String(Math.round(place.share * MILLION)) } : place;
  const asked: Record<string, string> = {
    ...where,
    stderr: flag(query.stderr),
    errors: flag(query.onlyErrors),
    pattern: query.text,
    regex: flag(query.isExpression),
    case: flag(query.isExact),
    ...(query.rank === null ? {} : { rank: String(query.rank) }),
    ...(most === undefined ? {} : { most: String(most) }),
  };
  return Object.entries(asked);
}
