// The extension: plugins, each of which can be disabled on its own.
import './dashboard.css';
import './panel.css';
import { cells } from './plugins/cells';
import { completion } from './plugins/completion';
import { consoles } from './plugins/consoles';
import { controls } from './plugins/controls';
import { rankDebugger } from './plugins/debugger';
import { example } from './plugins/example';
import { hub } from './plugins/hub';
import { labels } from './plugins/labels';
import { notifications } from './plugins/notifications';
import { outputs } from './plugins/outputs';
import { pages } from './plugins/pages';
import { panel } from './plugins/panel';
import { status } from './plugins/status';
import { tensorboard } from './plugins/tensorboard';

export default [hub, panel, controls, pages, labels, cells, example, outputs, completion, consoles, rankDebugger, tensorboard, status, notifications];
