/**
 * Reads the files of the live page. The repository and the package have them in
 * src/net/monitor/page.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../base/package-root.ts';

const types = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
} as const;

/** File names by the path of a request. */
const names = {
  '/': 'page.html',
  '/page.css': 'page.css',
  '/page.mjs': 'page.mjs',
  '/chart.mjs': 'chart.mjs',
  '/panels.mjs': 'panels.mjs',
  '/hosts.mjs': 'hosts.mjs',
  '/icon.svg': 'icon.svg',
} as const;

/** Returns path, type and bytes of each file. */
export function pageFiles(): [path: string, type: string, body: Uint8Array][] {
  const folder = join(packageRoot(import.meta.url), 'src/net/monitor/page');
  return Object.entries(names).map(([path, name]) => {
    const type = types[name.slice(name.lastIndexOf('.')) as keyof typeof types];
    return [path, type, readFileSync(join(folder, name))];
  });
}
