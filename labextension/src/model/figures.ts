// A rank's newest figures. Of a thousand ranks come a thousand samples a second: kept as they came, each would live just long
// enough to make work for the collector of old objects, which marks all of JupyterLab's heap. These are written over.
import type { MetricsSample } from './events';
import { keptFigures } from './kept_figures';

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

/** What is shown of a rank's newest sample. */
export class Figures extends keptFigures<Shown>(NAMES) {}
