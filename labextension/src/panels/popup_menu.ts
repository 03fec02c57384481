// Menus that are made when they are opened: of a run, and of what runs can be filtered by.
import { CommandRegistry } from '@lumino/commands';
import { Menu } from '@lumino/widgets';

export interface Choice {
  readonly label: string;
  readonly act: () => void;
  readonly isEnabled?: boolean;
  readonly isToggled?: boolean;
}

export type Entry = Choice | 'separator' | { readonly label: string; readonly entries: readonly Entry[] };

/** Show a menu at a place of the page; the focus comes back to where it was. */
export function showMenu(entries: readonly Entry[], x: number, y: number, origin: HTMLElement): void {
  const commands = new CommandRegistry();
  const menu = menuOf(entries, commands);
  menu.aboutToClose.connect(() => {
    origin.focus({ preventScroll: true });
    // The menu executes what was chosen after it has closed.
    requestAnimationFrame(() => menu.dispose());
  });
  menu.open(x, y);
}

function menuOf(entries: readonly Entry[], commands: CommandRegistry): Menu {
  const menu = new Menu({ commands });
  for (const entry of entries) {
    if (entry === 'separator') {
      menu.addItem({ type: 'separator' });
    } else if ('entries' in entry) {
      const submenu = menuOf(entry.entries, commands);
      submenu.title.label = entry.label;
      menu.addItem({ type: 'submenu', submenu });
    } else {
      const { label, act, isEnabled = true, isToggled } = entry;
      const command = `c${commands.listCommands().length}`;
      const toggle = isToggled === undefined ? {} : { isToggleable: true, isToggled: () => isToggled };
      // No letter of it is a key, and none is underlined.
      commands.addCommand(command, { label, mnemonic: -1, isEnabled: () => isEnabled, execute: act, ...toggle });
      menu.addItem({ command });
    }
  }
  return menu;
}
