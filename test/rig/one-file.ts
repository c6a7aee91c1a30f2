/**
 * Bundles each module of a test thread with all its imports into one file, which a thread loads in
 * a third of the time. `npm test` and its longer forms do this after compilation. A bundle that is
 * older than its module is not used.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { ONE_FILE } from './test-thread.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** Keeps each module's own URL, by which the module finds the files next to it. */
const places: Plugin = {
  name: 'places',
  setup({ onLoad }) {
    onLoad({ filter: /dist\/.*\.js$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replaceAll(
        'import.meta.url',
        JSON.stringify(pathToFileURL(path).href),
      ),
    }));
  },
};

export async function makeOneFiles(): Promise<void> {
  const modules = readdirSync(`${root}test`, { recursive: true, encoding: 'utf8' }).filter(
    (name) => {
      if (!name.endsWith('.ts')) return false;
      const text = readFileSync(`${root}test/${name}`, 'utf8');
      // Not modules that start their own thread.
      return (
        /\bperform\(/.test(text) &&
        text.includes('rig/test-thread.ts') &&
        !text.includes('new TestThread')
      );
    },
  );
  await build({
    entryPoints: modules.map((name) => `${root}dist/test/${name.slice(0, -3)}.js`),
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'warning',
    outdir: `${root}dist/test`,
    outbase: `${root}dist/test`,
    outExtension: { '.js': ONE_FILE },
    plugins: [places],
  });
}
