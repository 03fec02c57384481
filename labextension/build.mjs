// Bundles the widget into the Python package: one ES module and one style sheet, nothing fetched at run time.
import { build } from 'esbuild';

await build({
  entryPoints: ['src/widget.ts'],
  outfile: '../jupyter_ddl/views/static/dashboard.js',
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  logLevel: 'warning',
});
