// Texts of components, which know nothing of translations.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { RowTexts } from '../components/run_rows';
import type { StartTexts } from '../components/start_form';

export function startTexts(trans: TranslationBundle): StartTexts {
  return {
    trans,
    title: trans.__('Start ranks'),
    place: trans.__('Where'),
    here: trans.__('This host'),
    fields: {
      ranks: trans.__('Ranks'),
      nodes: trans.__('Nodes'),
      perNode: trans.__('Per node'),
      time: trans.__('Time'),
      partition: trans.__('Partition'),
      threads: trans.__('Threads'),
      name: trans.__('Name'),
    },
    automatic: trans.__('automatic'),
    devices: trans.__('Devices'),
    noDevices: trans.__('No GPU here: the ranks compute on the cores.'),
    share: trans.__('let ranks share a GPU'),
    keep: trans.__('keep the ranks when the kernel ends'),
    runs: trans.__('Runs in %1:'),
    start: trans.__('Start'),
    startRanks: trans.__('Start ranks'),
    more: trans.__('more'),
    attach: trans.__('Attach'),
    submit: trans.__('Submit a job'),
    export: trans.__('Export the notebook'),
    free: (free, total) => trans.__('%1 of %2 GiB free', free, total),
  };
}

export function rowTexts(trans: TranslationBundle): RowTexts {
  return {
    word: (text) => trans.__(text),
    choose: (when, state) => trans.__('Choose the run of %1, %2', when, state),
    loss: (value) => trans.__('loss %1', value),
    ranks: (ranks, count) => (count === 1 ? trans.__('rank %1', ranks) : trans.__('ranks %1', ranks)),
    menu: (when, state) => trans.__('Menu of the run of %1, %2', when, state),
    more: trans.__('More for this run'),
    today: trans.__('Today'),
    yesterday: trans.__('Yesterday'),
  };
}
