// What is shown of a rank's newest sample.
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

export class Figures extends keptFigures<Shown>(NAMES) {}
