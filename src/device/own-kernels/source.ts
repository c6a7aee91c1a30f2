/**
 * A `.gk` source: what it says, what it is called in a compiler's messages, and the words it is
 * written in.
 */

import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { describeValue } from '../../base/checks.ts';
import { typeError, unavailableError } from '../../base/errors.ts';
import { packageRoot } from '../../base/package-root.ts';

export interface KernelSource {
  readonly text: string;
  /** for messages */
  readonly file: string;
}

/**
 * The package's folder of native sources: gk.hpp, and what a library for host devices is made with.
 */
export const nativeFolder = `${packageRoot(import.meta.url)}native/`;

let included: { name: string; text: string }[] | undefined;

/**
 * What a source may include: gk.hpp, the words it is written in, stands before it; functions.gk has
 * exp, log and their like.
 */
export function headers(): readonly { name: string; text: string }[] {
  included ??= ['gk.hpp', 'functions.gk'].map((name) => ({
    name,
    text: readFileSync(`${nativeFolder}kernels/${name}`, 'utf8'),
  }));
  return included;
}

/** A string is the source itself, a URL the file that holds it. */
export async function readSource(name: string, source: string | URL): Promise<KernelSource> {
  if (typeof source === 'string') return { text: source, file: `${name}.gk` };
  if (!(source instanceof URL) || source.protocol !== 'file:')
    throw typeError(
      `loadKernels: source is a text, or a file's URL such as new URL('my.gk', import.meta.url), got ${describeValue(source)}`,
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

/** The names of the kernels in a source, in order. */
export function kernelsIn(text: string): string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, ' ');
  return [...code.matchAll(/\bGK_KERNEL\s+([A-Za-z_]\w*)\s*\(/g)].map(([, name]) => name as string);
}
