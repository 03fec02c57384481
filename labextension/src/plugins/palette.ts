// Where the palette has our commands.
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

export function inPalette(palette: ICommandPalette | null, trans: TranslationBundle, commands: readonly string[]): void {
  const category = trans.__('Distributed');
  for (const command of commands) {
    palette?.addItem({ command, category });
  }
}
