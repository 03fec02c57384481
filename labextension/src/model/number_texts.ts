// Numbers, sizes and durations as they are read at a glance: the one formatter of all that is shown. Python has the same
// (jupyter_ddl/protocol/number_texts.py); both are tested on schema/format.fixture.json. No DOM.
export const NOTHING = '–';

type Figure = number | null | undefined;

const DIGITS = 3;
const LOSS_DIGITS = 4;
const SECONDS_DIGITS = 2;
const WHOLE_TO = 1e15;
const PLAIN_FROM = 1e-4;
const [MIB, GIB] = [2 ** 20, 2 ** 30];
/** Below it a number of GiB is a number of zeros. */
const GIB_FROM = 0.1 * GIB;
const SIZES = ['B', 'kB', 'MB', 'GB', 'TB'] as const;
/** From here on three digits are those of the next unit. */
const SIZE_FROM = 999.5;
const [MINUTE_S, HOUR_S, DAY_S] = [60, 3600, 86_400];

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });
/** By their digits. */
const [PLAIN, SCIENTIFIC] = ([undefined, 'scientific'] as const).map((notation) =>
  [SECONDS_DIGITS, DIGITS, LOSS_DIGITS].map((digits) => new Intl.NumberFormat('en', { notation, maximumSignificantDigits: digits })),
);

/** A number with three digits, or whole from 100 on: 0.00123, 12.3, 1,234, 1.2e-6; nan, inf and -inf. */
export function number(value: Figure): string {
  return value == null ? NOTHING : shown(value, DIGITS);
}

/** A loss, of which late epochs change little, with four digits: 0.06785. */
export function loss(value: Figure): string {
  return value == null ? NOTHING : shown(value, LOSS_DIGITS);
}

/** How many a second: 1,234 /s, 1,234 samples/s. */
export function rate(perS: Figure, what = ''): string {
  return perS == null ? NOTHING : `${number(perS)} ${what}/s`;
}

/** A number for an axis, where there is little room. */
export function compact(value: number): string {
  return Math.abs(value) >= 1000 ? COMPACT.format(value) : String(Number(value.toPrecision(6)));
}

/** A share as whole percents: 0.125 is 13%. */
export function percent(share: Figure): string {
  if (share == null) {
    return NOTHING;
  }
  return Number.isFinite(share) ? `${whole(share * 100)}%` : number(share);
}

/** A duration of a step: 12.3 ms. */
export function milliseconds(seconds: Figure): string {
  return seconds == null ? NOTHING : `${number(seconds * 1000)} ms`;
}

/** A size in memory, which devices and hosts have by powers of two: 2 GiB, 0.806 GiB, 85.7 MiB. */
export function memorySize(bytes: Figure): string {
  if (bytes == null) {
    return NOTHING;
  }
  return bytes !== 0 && Math.abs(bytes) < GIB_FROM ? `${number(bytes / MIB)} MiB` : `${number(bytes / GIB)} GiB`;
}

/** A size of files, or of what is sent: 512 B, 1.5 GB. */
export function size(bytes: Figure): string {
  if (bytes == null) {
    return NOTHING;
  }
  let [value, power] = [bytes, 0];
  while (power < SIZES.length - 1 && Math.abs(value) >= SIZE_FROM) {
    value /= 1000;
    power += 1;
  }
  return `${number(value)} ${SIZES[power]!}`;
}

/** How long something took: 0.45 s, 12 s, 3 min 5 s, 1 h 02 min, 4 d 03 h. */
export function duration(seconds: Figure): string {
  if (seconds == null) {
    return NOTHING;
  }
  if (!Number.isFinite(seconds)) {
    return number(seconds);
  }
  const lengthS = Math.abs(seconds);
  const sign = seconds < 0 ? '-' : '';
  if (lengthS < MINUTE_S - 0.5 || lengthS >= WHOLE_TO) {
    return `${shown(seconds, SECONDS_DIGITS)} s`;
  }
  const wholeS = rounded(lengthS);
  return wholeS < HOUR_S ? `${sign}${Math.floor(wholeS / MINUTE_S)} min ${wholeS % MINUTE_S} s` : sign + hoursText(lengthS);
}

/** How long something still takes, which is not known to the second: 40 s, 6 min, 1 h 02 min, 4 d 03 h. */
export function timeLeft(seconds: Figure): string {
  if (seconds == null) {
    return NOTHING;
  }
  if (!Number.isFinite(seconds)) {
    return number(seconds);
  }
  const leftS = Math.max(0, seconds);
  if (leftS < MINUTE_S - 0.5 || leftS >= WHOLE_TO) {
    return `${whole(leftS)} s`;
  }
  const minutes = rounded(leftS / MINUTE_S);
  return minutes < MINUTE_S ? `${minutes} min` : hoursText(leftS);
}

/** A place on an axis of time, where there is little room: 0:04, 1:07, 2:07:09. */
export function clock(seconds: number): string {
  const wholeS = Math.round(Math.abs(seconds));
  const minutes = Math.floor(wholeS / 60);
  const hours = Math.floor(minutes / 60);
  const sign = seconds < 0 && wholeS > 0 ? '-' : '';
  return hours > 0 ? `${sign}${hours}:${two(minutes % 60)}:${two(wholeS % 60)}` : `${sign}${minutes}:${two(wholeS % 60)}`;
}

/** A finite number without its fraction: 1,235; of one beyond a thousand million million three digits. */
export function whole(value: number): string {
  return Math.abs(value) >= WHOLE_TO ? number(value) : WHOLE.format(value).replace(/^-0$/, '0');
}

function shown(value: number, digits: number): string {
  if (!Number.isFinite(value)) {
    return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
  }
  const length = Math.abs(value);
  const wholeFrom = 10 ** (digits - 1);
  if (length === 0) {
    return '0';
  }
  if (length >= wholeFrom && length < WHOLE_TO) {
    return WHOLE.format(value);
  }
  const at = digits - SECONDS_DIGITS;
  return length >= PLAIN_FROM && length < wholeFrom ? PLAIN![at]!.format(value) : SCIENTIFIC![at]!.format(value).replace('E', 'e');
}

/** An hour or more: 1 h 02 min, 4 d 03 h. */
function hoursText(lengthS: number): string {
  const minutes = rounded(lengthS / MINUTE_S);
  if (minutes * MINUTE_S < DAY_S) {
    return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  }
  const hours = rounded(lengthS / HOUR_S);
  return `${WHOLE.format(Math.floor(hours / 24))} d ${two(hours % 24)} h`;
}

function rounded(value: number): number {
  return Math.floor(value + 0.5);
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}
