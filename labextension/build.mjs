// Bundles what the browser needs, nothing of which is fetched at run time: the widget, as one ES module in the Python
// package, and JupyterLab's extension, whose pages are modules of their own, loaded when one is opened. Both have the same
// components.
import { execFileSync } from 'node:child_process';
import { copyFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { build } from 'esbuild';

const common = { bundle: true, minify: true, format: 'esm', target: 'es2022', logLevel: 'warning' };

await build({ ...common, entryPoints: ['src/widget.ts'], outfile: '../jupyter_ddl/views/static/dashboard.js' });

rmSync('lib', { recursive: true, force: true });
// JupyterLab's packages and Lumino's are those of the JupyterLab that loads the extension.
await build({ ...common, entryPoints: ['src/index.ts'], outdir: 'lib', splitting: true, external: ['@jupyterlab/*', '@lumino/*'] });
const builder = 'node_modules/@jupyter/builder/lib/build-labextension.js';
// Without this file the builder would ask the network which packages JupyterLab shares.
const core = 'node_modules/@jupyterlab/core-meta/core.package.json';
execFileSync(process.execPath, [builder, '--core-package-file', core, '.'], { stdio: ['ignore', 'ignore', 'inherit'] });
copyFileSync('install.json', 'built/install.json');

// What a browser loads must stay small.
const MAX_BYTES = 320_000;
const files = readdirSync('built/static').filter((name) => name.endsWith('.js'));
const bytes = files.reduce((sum, name) => sum + statSync(`built/static/${name}`).size, 0);
if (bytes > MAX_BYTES) {
  throw new Error(`The panel must be at most ${MAX_BYTES} bytes. Built: ${bytes}. Leave out what it does not need.`);
}
