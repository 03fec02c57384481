// What is shown of a rank's newest sample. Of a thousand ranks come a thousand samples a second: kept as they came, each
// would live just long enough to make work for the collector of old objects, which marks all of JupyterLab's heap.
import type { MetricsSample } from './events';

const NAMES = [
  'at_s',
  'samples_per_s',
  'step_s',
  'exchange_s',
  'input_s',
  'loss',
  'cpu_pct',
  'rss_bytes',
  'gpu_pct',
  'gpu_memory_used_bytes',
  'gpu_memory_total_bytes',
] as const;

type Name = (typeof NAMES)[number];
type Shown = Pick<MetricsSample, Name>;

export class Figures implements Shown {
  private readonly values = new Float64Array(NAMES.length);
  /** Apart, since NaN is a loss that somebody must see. */
  private readonly isKnown = new Uint8Array(NAMES.length);

  take(sample: Shown): void {
    for (let at = 0; at < NAMES.length; at++) {
      const value = sample[NAMES[at]!];
      this.isKnown[at] = value === null ? 0 : 1;
      this.values[at] = value ?? 0;
    }
  }

  get at_s(): number {
    return this.values[0]!;
  }

  get samples_per_s(): number | null {
    return this.known(1);
  }

  get step_s(): number | null {
    return this.known(2);
  }

  get exchange_s(): number | null {
    return this.known(3);
  }

  get input_s(): number | null {
    return this.known(4);
  }

  get loss(): number | null {
    return this.known(5);
  }

  get cpu_pct(): number {
    return this.values[6]!;
  }

  get rss_bytes(): number {
    return this.values[7]!;
  }

  get gpu_pct(): number | null {
    return this.known(8);
  }

  get gpu_memory_used_bytes(): number | null {
    return this.known(9);
  }

  get gpu_memory_total_bytes(): number | null {
    return this.known(10);
  }

  private known(at: number): number | null {
    return this.isKnown[at] === 1 ? this.values[at]! : null;
  }
}
