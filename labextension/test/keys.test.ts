import { describe, expect, it } from 'vitest';
import { isOwnKey } from '../src/components/keys';

const NONE = { ctrlKey: false, metaKey: false, altKey: false, shiftKey: false };

describe('a key in a part of ours', () => {
  it.each(['a', 'D', 'Enter', 'ArrowDown', 'Escape', 'Home', ' ', 'Tab'])('that types or moves stays there: %s', (key) => {
    expect(isOwnKey({ ...NONE, key })).toBe(true);
    expect(isOwnKey({ ...NONE, key, shiftKey: true })).toBe(true);
  });

  it.each(['a', 'c', 'v', 'x', 'z', 'ArrowLeft', 'Home', 'Backspace'])('that edits stays there: Ctrl %s', (key) => {
    expect(isOwnKey({ ...NONE, key, ctrlKey: true })).toBe(true);
    expect(isOwnKey({ ...NONE, key, metaKey: true })).toBe(true);
  });

  it.each([
    { key: 's', ctrlKey: true },
    { key: 's', metaKey: true },
    { key: 'C', ctrlKey: true, shiftKey: true },
    { key: 'E', ctrlKey: true, shiftKey: true },
    { key: 'f', ctrlKey: true },
    { key: 'b', ctrlKey: true },
    { key: 'Enter', ctrlKey: true },
    { key: 'r', ctrlKey: true, altKey: true },
    { key: 'ArrowUp', altKey: true },
    { key: 'F11' },
  ])('that is JupyterLab’s goes through: %j', (event) => {
    expect(isOwnKey({ ...NONE, ...event })).toBe(false);
  });
});
