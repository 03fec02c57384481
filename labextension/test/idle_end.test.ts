// When idle ranks are ended, as a panel and the status bar say it.
import { describe, expect, it } from 'vitest';
import { idleEnd } from '../src/model/idle_end';

describe('the end of idle ranks', () => {
  it.each([
    [2800, { text: '30 min', isSoon: false }],
    [1301, { text: '5 min', isSoon: false }],
    [1300, { text: '5 min 0 s', isSoon: true }],
    [1012.3, { text: '13 s', isSoon: true }],
    [990, { text: '0 s', isSoon: true }],
  ])('is counted by seconds in the last minutes: %d', (endsAtS, end) => {
    expect(idleEnd(endsAtS, 1000)).toEqual(end);
  });

  it('is not known while they are used', () => {
    expect(idleEnd(null, 1000)).toBeNull();
  });
});
