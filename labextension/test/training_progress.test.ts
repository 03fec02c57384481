// How far a training is and how long it still takes is said alike by the browser and by Python: one table for both.
import { describe, expect, it } from 'vitest';
import fixture from '../schema/progress.fixture.json';
import { numberOf } from '../src/model/parse';
import { progressText, TrainingProgress } from '../src/model/training_progress';
import { ENGLISH } from '../src/model/words';

type Given = readonly (number | null)[];

function take(progress: TrainingProgress, [what, ...given]: readonly unknown[], at: number): void {
  const [at_s, epoch, part, epochs, rank] = given as Given;
  switch (what) {
    case 'text':
      expect(progressText(progress, ENGLISH), `step ${at}`).toBe(given[0]);
      break;
    case 'run_over':
      progress.end();
      break;
    case 'end':
      progress.ended({ rank: epochs ?? 0, at_s: numberOf(at_s), epoch: epoch!, is_last: given[2] === true });
      break;
    case 'sample':
      progress.sample({ rank: rank ?? 0, at_s: numberOf(at_s), epoch: epoch!, epoch_part: part!, epochs: epochs! });
      break;
    case 'rest':
      progress.sample({ rank: 0, at_s: numberOf(at_s), epoch: null, epoch_part: null, epochs: null });
      break;
    default:
      throw new TypeError(`unknown: ${String(what)}`);
  }
}

describe('the progress of a training', () => {
  it.each(fixture.map(({ name, steps }) => [name, steps] as const))('%s', (_, steps) => {
    const progress = new TrainingProgress();
    for (const [at, step] of steps.entries()) {
      take(progress, step, at);
    }
  });
});
