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
  'gpu_watts',
  'gpu_celsius',
  'nvlink_received_bytes_per_s',
  'nvlink_sent_bytes_per_s',
  'network_received_bytes_per_s',
  'network_sent_bytes_per_s',
  'fabric_received_bytes_per_s',
  'fabric_sent_bytes_per_s',
] as const;

type Shown = Pick<MetricsSample, (typeof NAMES)[number]>;

/** Each figure is read by its name. */
export interface Figures extends Shown {}

export class Figures {
  private readonly values = new Float64Array(NAMES.length);
  /** Separate, since a loss of NaN must be seen. */
  private readonly isKnown = new Uint8Array(NAMES.length);

  static {
    for (const [at, name] of NAMES.entries()) {
      Object.defineProperty(this.prototype, name, {
        get(this: Figures) {
          return this.isKnown[at] === 1 ? this.values[at] : null;
        },
      });
    }
  }

  take(sample: Shown): void {
    for (let at = 0; at < NAMES.length; at++) {
      const value = sample[NAMES[at]!];
      this.isKnown[at] = value === null ? 0 : 1;
      this.values[at] = value ?? 0;
    }
  }
}
