// Where an axis has its marks. No DOM.
const NICE = [1, 2, 5, 10];

/** Return round numbers from one end of an axis to the other, at most about as many as wished. */
export function ticksOf(from: number, to: number, wished: number): number[] {
  if (!(to > from) || !Number.isFinite(to - from)) {
    return [from];
  }
  const least = (to - from) / wished;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * NICE.find((one) => one * power >= least * (1 - 1e-9))!;
  const first = Math.ceil(from / step - 1e-9);
  const last = Math.floor(to / step + 1e-9);
  // A product, and not a sum: 0.1 three times is 0.30000000000000004.
  return Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

/** Return the marks of a logarithmic axis: powers of ten, 2 and 5 times these where there are few, or plain round numbers. */
export function logTicksOf(from: number, to: number): number[] {
  const powers = Math.floor(Math.log10(to)) - Math.ceil(Math.log10(from));
  const multiples = powers < 2 ? [1, 2, 5] : [1];
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(from)); power <= Math.ceil(Math.log10(to)); power++) {
    found.push(...multiples.map((multiple) => Number((multiple * 10 ** power).toPrecision(3))));
  }
  const within = found.filter((tick) => tick >= from && tick <= to);
  return within.length < 3 ? ticksOf(from, to, 4) : within;
}
