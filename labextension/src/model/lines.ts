// One rank's one stream as lines of plain text: what a terminal would show, without its colours.

export const LINE_LIMIT = 2000;

// CSI and OSC sequences, other escapes of two characters, and control characters but tab.
const CONTROLS = /\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]|[\x00-\x08\x0b-\x1f\x7f]/g;

/** Return text without terminal controls. */
export function plain(text: string): string {
  return text.replace(CONTROLS, '');
}

export class LineReader {
  private partial = '';

  /** Whether a line has begun and not ended. */
  get isWithinLine(): boolean {
    return this.partial !== '';
  }

  /** Return the lines that a chunk ends; what follows the last newline waits for more. */
  read(text: string): string[] {
    const parts = (this.partial + text).split('\n');
    this.partial = parts.pop() ?? '';
    if (this.partial.length > 2 * LINE_LIMIT) {
      // What a progress bar has overwritten goes first, then what is too long to be read.
      this.partial = shown(this.partial);
    }
    return parts.map(shown);
  }

  /** Return what stands in the unfinished line, and forget it. */
  end(): string {
    const line = shown(this.partial);
    this.partial = '';
    return line;
  }
}

/** Return a line's final text: a carriage return restarts it, a backspace moves one back. */
function shown(line: string): string {
  const trimmed = line.replace(/\r+$/, '');
  const last = trimmed.slice(trimmed.lastIndexOf('\r') + 1);
  const text = plain(last.includes('\b') ? backspaced(last) : last);
  return text.length > LINE_LIMIT ? `${text.slice(0, LINE_LIMIT)}…` : text;
}

function backspaced(line: string): string {
  const kept: string[] = [];
  for (const character of line.slice(-4 * LINE_LIMIT)) {
    if (character === '\b') {
      kept.pop();
    } else {
      kept.push(character);
    }
  }
  return kept.join('');
}
