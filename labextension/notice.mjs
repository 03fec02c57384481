// The NOTICE of what is bundled: packages whose modules are in the outputs, and those whose own code joins the modules.
import { existsSync, readFileSync } from 'node:fs';

const HEAD = `What jupyter_ddl's files for the browser hold of others, with their licences. \`make notice\` writes this from the bundles.
`;
/** esbuild's and rspack's helpers, which load and join modules, are in what they build. */
const JOINING = ['esbuild', '@rspack/core'];
const LICENCES = ['LICENSE', 'LICENSE.md', 'LICENSE.txt'];

/** Return the packages that have bytes in the outputs, by esbuild's account of them. */
function bundledIn(metafile) {
  const inputs = Object.values(metafile.outputs).flatMap((output) => Object.entries(output.inputs));
  const paths = inputs.filter(([, { bytesInOutput }]) => bytesInOutput > 0).map(([path]) => path);
  return paths.flatMap((path) => path.match(/.*node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1] ?? []);
}

function entryOf(name) {
  const folder = `node_modules/${name}`;
  const { version, license } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'));
  const file = LICENCES.map((licence) => `${folder}/${licence}`).find((path) => existsSync(path));
  if (license === undefined || file === undefined) {
    throw new Error(`What is bundled must name and bring its licence. Received: ${name} ${version}. Leave it out.`);
  }
  return `${name} ${version}\nSPDX-License-Identifier: ${license}\n\n${readFileSync(file, 'utf8').trim()}\n`;
}

/** Return the NOTICE of bundles, from the metafiles that esbuild made with them. */
export function noticeOf(metafiles) {
  const names = new Set([...metafiles.flatMap(bundledIn), ...JOINING]);
  return [HEAD, ...[...names].sort().map(entryOf)].join(`\n${'-'.repeat(80)}\n\n`);
}
