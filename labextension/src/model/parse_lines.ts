// Reads a page of lines of a log as the server writes it. No DOM.
import type { LinesPage, LogLine, Timed } from './log_window';
import { isRecord } from './parse';

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
