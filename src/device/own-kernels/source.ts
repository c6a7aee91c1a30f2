/**
 * Reads a `.gk` source and the headers that it may include. A source has a text, and a name for a
 * compiler's messages.
 */

import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { describeValue } from '../../base/checks.ts';
import { typeError, unavailableError } from '../../base/errors.ts';
import { packageRoot } from '../../base/package-root.ts';

export interface KernelSource {
  readonly text: string;
  /** name of the source in a compiler's messages */
  readonly file: string;
}

/**
 * The package's directory of native sources. It contains gk.hpp, and the headers that a library for
 * CPU devices includes.
 */
export const nativeFolder = `${packageRoot(import.meta.url)}native/`;

let included: { name: string; text: string }[] | undefined;

/**
 * Returns the headers that a source may include. gk.hpp defines the language and is included before
 * the source. functions.gk has exp, log and similar functions.
 */
export function headers(): readonly { name: string; text: string }[] {
  included ??= ['gk.hpp', 'functions.gk'].map((name) => ({
    name,
    text: readFileSync(`${nativeFolder}kernels/${name}`, 'utf8'),
  }));
  return included;
}

/** Reads a source. A string is the source itself. A URL names the file that contains the source. */
export async function readSource(name: string, source: string | URL): Promise<KernelSource> {
  if (typeof source === 'string') return { text: source, file: `${name}.gk` };
  if (!(source instanceof URL) || source.protocol !== 'file:')
    throw typeError(
      `loadKernels: source must be a text, or a file's URL such as new URL('my.gk', import.meta.url), got ${describeValue(source)}`,
    );
  const file = fileURLToPath(source);
  try {
    return { text: await readFile(file, 'utf8'), file };
  } catch (error) {
    throw unavailableError(
      `loadKernels: the source cannot be read: ${(error as Error).message}`,
      undefined,
      error,
    );
  }
}

/** Returns the names of the kernels in a source, in order. */
export function kernelsIn(text: string): string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, ' ');
  return [...code.matchAll(/\bGK_KERNEL\s+([A-Za-z_]\w*)\s*\(/g)].map(([, name]) => name as string);
}
