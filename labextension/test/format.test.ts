// Numbers are shown alike by the browser and by Python: both read the same fixture.
import { describe, expect, it } from 'vitest';
import fixture from '../schema/format.fixture.json';
import * as format from '../src/components/format';
import { numberOf } from '../src/model/parse';

const { number, percent, milliseconds, memorySize, loss, rate, size, duration, timeLeft } = format;
const FUNCTIONS = { number, percent, milliseconds, memory_size: memorySize, loss, rate, size, duration, time_left: timeLeft } as const;
const NAMES = Object.keys(FUNCTIONS) as (keyof typeof FUNCTIONS)[];

describe.each(NAMES)('%s', (name) => {
  it('has a fixture, and there is no other', () => {
    expect(Object.keys(fixture)).toEqual([...NAMES]);
  });

  it.each(fixture[name] as [unknown, string][])('of %j is %s', (value, text) => {
    expect(FUNCTIONS[name](numberOf(value))).toBe(text);
  });

  it('of nothing is a dash', () => {
    expect(FUNCTIONS[name](null)).toBe('–');
  });
});
