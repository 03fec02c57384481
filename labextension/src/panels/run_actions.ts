// What is done with a run, and rarely: one module, which a page loads when the first of these is asked for.
export { goToCell } from '../notebook/go_to_cell';
export { askForLabel } from './label_dialogs';
export { offerReport } from './report_dialog';
