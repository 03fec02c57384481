// Bundles what the browser needs, nothing of which is fetched at run time: the widget, as one ES module in the Python
// package, and JupyterLab's extension, whose pages are modules of their own, loaded when one is opened. Both have the same
// components.
import { execFileSync } from 'node:child_process';
import { appendFileSync, copyFileSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { build, transform } from 'esbuild';
import { noticeOf } from './notice.mjs';

/** Styles of what is loaded later are a text for the module that puts them into the page. */
const laterStyles = {
  name: 'later styles',
  setup: ({ onLoad }) =>
    onLoad({ filter: /[/]pages\.css$/ }, async ({ path }) => {
      const { code } = await transform(readFileSync(path, 'utf8'), { loader: 'css', minify: true });
      return { contents: code.trimEnd(), loader: 'text' };
    }),
};

const common = { bundle: true, minify: true, format: 'esm', target: 'es2022', logLevel: 'warning' };

const widget = await build({ ...common, entryPoints: ['src/widget.ts'], outfile: '../jupyter_ddl/views/static/dashboard.js', metafile: true });

rmSync('lib', { recursive: true, force: true });
// JupyterLab's packages and Lumino's are those of the JupyterLab that loads the extension.
const bundled = { entryPoints: ['src/index.ts'], outdir: 'lib', splitting: true, external: ['@jupyterlab/*', '@lumino/*'], plugins: [laterStyles] };
const { metafile } = await build({ ...common, ...bundled, metafile: true });
// The builder's own way to styles ("style" in package.json) loads 5 KB of code with them.
const styles = JSON.stringify(readFileSync('lib/index.css', 'utf8'));
appendFileSync('lib/index.js', `document.head.append(Object.assign(document.createElement('style'), { textContent: ${styles} }));\n`);
const builder = 'node_modules/@jupyter/builder/lib/build-labextension.js';
// Without this file the builder would ask the network which packages JupyterLab shares.
const core = 'node_modules/@jupyterlab/core-meta/core.package.json';
execFileSync(process.execPath, [builder, '--core-package-file', core, '.'], { stdio: ['ignore', 'ignore', 'inherit'] });
copyFileSync('install.json', 'built/install.json');

// What JupyterLab loads at its start must stay small, and all of it, pages included.
const MAX_BYTES_AT_START = 200_000;
const MAX_BYTES = 400_000;

/** Return the outputs that are loaded with one: its imports, and theirs, but for those that code asks for. */
function loadedWith(name, found = new Set()) {
  const output = metafile.outputs[name];
  if (output !== undefined && !found.has(name)) {
    found.add(name);
    output.imports.filter(({ kind }) => kind === 'import-statement').forEach(({ path }) => loadedWith(path, found));
  }
  return found;
}

function check(what, bytes, most) {
  if (bytes > most) {
    throw new Error(`${what} must be at most ${most} bytes. Built: ${bytes}. Leave out what it does not need.`);
  }
}

const atStart = [...loadedWith('lib/index.js'), 'lib/index.css'];
const files = readdirSync('built/static').filter((name) => name.endsWith('.js'));
const all = files.reduce((sum, name) => sum + statSync(`built/static/${name}`).size, 0);
check('What is loaded at the start', atStart.reduce((sum, name) => sum + metafile.outputs[name].bytes, 0), MAX_BYTES_AT_START);
check('The panel', all, MAX_BYTES);

const notice = noticeOf([widget.metafile, metafile]);
if (process.argv.includes('--notice')) {
  writeFileSync('../NOTICE', notice);
} else if (readFileSync('../NOTICE', 'utf8') !== notice) {
  throw new Error('NOTICE must name what is bundled, with its version and licence. Received: another. Run: make notice');
}
