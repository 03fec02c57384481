// Leads from the sidebar to the page of all clusters; it is not there where the plugin of pages is disabled.
import { h, setHidden } from '../components/dom';
import { CommandIDs } from '../tokens';
import type { Context } from './context';

export class ClustersLink {
  readonly element: HTMLElement;

  constructor(private readonly context: Context) {
    const button = h('button', { class: 'ddl-run-link' }, context.trans.__('All clusters'));
    button.addEventListener('click', () => context.act(CommandIDs.clusters));
    this.element = h('div', { class: 'ddl-clusters-link' }, button);
  }

  update(): void {
    setHidden(this.element, !this.context.can(CommandIDs.clusters));
  }
}
