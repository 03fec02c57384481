// What a rank's device draws, and what its links and its host's carry, as text. No DOM.
import type { Figures } from './figures';
import { number, size } from './number_texts';
import type { Words } from './words';

type Shown = Pick<
  Figures,
  | 'gpu_watts'
  | 'gpu_celsius'
  | 'nvlink_received_bytes_per_s'
  | 'nvlink_sent_bytes_per_s'
  | 'network_received_bytes_per_s'
  | 'network_sent_bytes_per_s'
  | 'fabric_received_bytes_per_s'
  | 'fabric_sent_bytes_per_s'
>;

/** What a rank's device reports besides its use: 310 W, 61 °C, NVLink ↓45 GB/s ↑44 GB/s; empty where it reports nothing. */
export function deviceText(figures: Shown | null): string {
  const watts = figures?.gpu_watts == null ? '' : `${number(figures.gpu_watts)} W`;
  const celsius = figures?.gpu_celsius == null ? '' : `${number(figures.gpu_celsius)} °C`;
  return joined([watts, celsius, traffic('NVLink', figures?.nvlink_received_bytes_per_s, figures?.nvlink_sent_bytes_per_s)]);
}

/** What a host's network and its InfiniBand carry, as its first rank reads them; empty where that is not known. */
export function hostText(figures: Shown | null, trans: Words): string {
  return joined([
    traffic(trans.__('network'), figures?.network_received_bytes_per_s, figures?.network_sent_bytes_per_s),
    traffic('InfiniBand', figures?.fabric_received_bytes_per_s, figures?.fabric_sent_bytes_per_s),
  ]);
}

function traffic(what: string, received: number | null | undefined, sent: number | null | undefined): string {
  return received == null || sent == null ? '' : `${what} ↓${size(received)}/s ↑${size(sent)}/s`;
}

function joined(texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join(', ');
}
