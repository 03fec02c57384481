// Gives the user a file that was made here.
import type { Picture } from '../model/curve_svg';
import type { Words } from '../model/words';
import { h } from './dom';

/** A picture of points has twice as many as the page: it is read on screens that have them, and on paper. */
const SCALE = 2;

export function save(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = h('a', { href: address, download: name });
  link.click();
  // The download has the content by then.
  window.setTimeout(() => URL.revokeObjectURL(address), 0);
}

export function saveText(name: string, type: string, text: string): void {
  save(name, new Blob([text], { type: `${type};charset=utf-8` }));
}

/** Return a picture as points.
 *
 * @throws Error where the browser cannot draw it: it is too large.
 */
export async function pngOf({ svg, width, height }: Picture, trans: Words): Promise<Blob> {
  const address = URL.createObjectURL(new Blob([svg], { type: 'image/svg+xml' }));
  try {
    const image = new Image(width, height);
    image.src = address;
    await image.decode();
    const canvas = h('canvas', { width: String(width * SCALE), height: String(height * SCALE) });
    canvas.getContext('2d')?.drawImage(image, 0, 0, width * SCALE, height * SCALE);
    const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, 'image/png'));
    if (blob === null) {
      const size = `${width * SCALE} x ${height * SCALE}`;
      throw new Error(trans.__('A picture must be of a size that the browser can draw. Received: %1. Save it as SVG.', size));
    }
    return blob;
  } finally {
    URL.revokeObjectURL(address);
  }
}
