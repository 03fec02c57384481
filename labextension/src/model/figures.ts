// What is shown of a rank's newest sample. Of a thousand ranks come a thousand samples a second: kept as they came, each
// would live just long enough to make work for the collector of old objects, which marks all of JupyterLab's heap.
import type { MetricsSample } from './events';

const PLACES = {
  at_s: 0,
  samples_per_s: 1,
  step_s: 2,
  exchange_s: 3,
  input_s: 4,
  loss: 5,
  cpu_pct: 6,
  rss_bytes: 7,
  gpu_pct: 8,
  gpu_memory_used_bytes: 9,
  gpu_memory_total_bytes: 10,
  gpu_watts: 11,
  gpu_celsius: 12,
  nvlink_received_bytes_per_s: 13,
  nvlink_sent_bytes_per_s: 14,
  network_received_bytes_per_s: 15,
  network_sent_bytes_per_s: 16,
  fabric_received_bytes_per_s: 17,
  fabric_sent_bytes_per_s: 18,
} as const;

type Name = keyof typeof PLACES;
type Shown = Pick<MetricsSample, Name>;

const NAMES = Object.keys(PLACES) as readonly Name[];

export class Figures implements Shown {
  private readonly values = new Float64Array(NAMES.length);
  /** Separate, since a loss of NaN must be seen. */
  private readonly isKnown = new Uint8Array(NAMES.length);

  take(sample: Shown): void {
    for (let at = 0; at < NAMES.length; at++) {
      const value = sample[NAMES[at]!];
      this.isKnown[at] = value === null ? 0 : 1;
      this.values[at] = value ?? 0;
    }
  }

  get at_s(): number {
    return this.values[PLACES.at_s]!;
  }

  get samples_per_s(): number | null {
    return this.known(PLACES.samples_per_s);
  }

  get step_s(): number | null {
    return this.known(PLACES.step_s);
  }

  get exchange_s(): number | null {
    return this.known(PLACES.exchange_s);
  }

  get input_s(): number | null {
    return this.known(PLACES.input_s);
  }

  get loss(): number | null {
    return this.known(PLACES.loss);
  }

  get cpu_pct(): number {
    return this.values[PLACES.cpu_pct]!;
  }

  get rss_bytes(): number {
    return this.values[PLACES.rss_bytes]!;
  }

  get gpu_pct(): number | null {
    return this.known(PLACES.gpu_pct);
  }

  get gpu_memory_used_bytes(): number | null {
    return this.known(PLACES.gpu_memory_used_bytes);
  }

  get gpu_memory_total_bytes(): number | null {
    return this.known(PLACES.gpu_memory_total_bytes);
  }

  get gpu_watts(): number | null {
    return this.known(PLACES.gpu_watts);
  }

  get gpu_celsius(): number | null {
    return this.known(PLACES.gpu_celsius);
  }

  get nvlink_received_bytes_per_s(): number | null {
    return this.known(PLACES.nvlink_received_bytes_per_s);
  }

  get nvlink_sent_bytes_per_s(): number | null {
    return this.known(PLACES.nvlink_sent_bytes_per_s);
  }

  get network_received_bytes_per_s(): number | null {
    return this.known(PLACES.network_received_bytes_per_s);
  }

  get network_sent_bytes_per_s(): number | null {
    return this.known(PLACES.network_sent_bytes_per_s);
  }

  get fabric_received_bytes_per_s(): number | null {
    return this.known(PLACES.fabric_received_bytes_per_s);
  }

  get fabric_sent_bytes_per_s(): number | null {
    return this.known(PLACES.fabric_sent_bytes_per_s);
  }

  private known(at: number): number | null {
    return this.isKnown[at] === 1 ? this.values[at]! : null;
  }
}
