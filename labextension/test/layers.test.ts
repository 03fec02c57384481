// Which folder of src may import which: models know no page and do no I/O but by the server that they are given, and
// panels and components do none at all.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from 'vitest';

const SRC = join(import.meta.dirname, '..', 'src');
/** Folder -> what its modules may import: folders of src, its top-level modules, and packages by how their names begin. */
const MAY: Readonly<Record<string, readonly string[]>> = {
  model: ['model', '@lumino/signaling', '@lumino/coreutils'],
  components: ['components', 'model', 'uplot'],
  panels: ['panels', 'components', 'model', 'notebook', 'tokens', 'icons', 'pages.css', '@jupyterlab/', '@lumino/'],
  notebook: ['notebook', 'panels', 'components', 'model', '@jupyterlab/', '@lumino/'],
};

function imported(path: string): string[] {
  const text = readFileSync(join(SRC, path), 'utf8');
  return [...text.matchAll(/(?:from |import |import\()'([^']+)'/g)].map(([, found]) => found!);
}

/** Return the folder, or the top-level module, of an import; a package's name as it is. */
function placeOf(path: string, found: string): string {
  return found.startsWith('.') ? normalize(join(dirname(path), found)).split('/')[0]! : found;
}

describe.each(Object.entries(MAY))('%s', (folder, may) => {
  const paths = readdirSync(join(SRC, folder)).map((name) => `${folder}/${name}`);

  it.each(paths)('%s imports nothing but what it may', (path) => {
    const others = imported(path).map((found) => placeOf(path, found));
    expect(others.filter((found) => !may.some((one) => found === one || (one.endsWith('/') && found.startsWith(one))))).toEqual([]);
  });
});

it.each(['model', 'panels', 'components'])('%s neither fetches nor opens a socket', (folder) => {
  const found = readdirSync(join(SRC, folder)).filter((name) =>
    /\bfetch\(|WebSocket|XMLHttpRequest|makeRequest/.test(readFileSync(join(SRC, folder, name), 'utf8')),
  );
  expect(found).toEqual([]);
});

it('models know no document and no window', () => {
  const found = readdirSync(join(SRC, 'model')).filter((name) => /(?<!\.)\b(document|window)\.\w/.test(readFileSync(join(SRC, 'model', name), 'utf8')));
  expect(found).toEqual([]);
});

it('modules have less than 300 lines, but for the generated one', () => {
  const paths = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
  const long = paths.filter((path) => readFileSync(join(SRC, path), 'utf8').split('\n').length > 300);
  expect(long).toEqual(['model/events.ts']);
});

it('dialogs that destroy have Cancel in focus', () => {
  const paths = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
  const asked = paths.flatMap((path) => [...readFileSync(join(SRC, path), 'utf8').matchAll(/buttons: \[(.*Dialog\.warnButton.*)\],([^)]*)/g)].map((found) => ({ path, found })));
  expect(asked.map(({ path }) => path)).toEqual(['panels/dialogs.ts']);
  expect(paths.filter((path) => /\bisMeant\((?!title: )/.test(readFileSync(join(SRC, path), 'utf8'))).sort()).toEqual([
    'panels/clusters_page.ts',
    'panels/jobs_section.ts',
    'panels/kept_clusters.ts',
    'panels/runs_section.ts',
    'plugins/controls.ts',
  ]);
  for (const { path, found } of asked) {
    expect(found[1], path).toMatch(/^Dialog\.cancelButton/);
    expect(found[2], path).toContain('defaultButton: 0');
  }
});
