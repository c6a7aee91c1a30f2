/** Builds fault_shim.c, and controls it from the process into which it is preloaded. */
import { spawnSync } from 'node:child_process';
import { unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SOURCE = fileURLToPath(new URL('../../../test/checkpoint/fault_shim.c', import.meta.url));

/** Builds the library in the folder. If there is no compiler, prints this and returns null. */
export function buildFaultShim(folder: string): string | null {
  const path = join(folder, 'fault_shim.so');
  const compiler = process.env.CC ?? 'gcc';
  const built = spawnSync(compiler, ['-O1', '-shared', '-fPIC', '-o', path, SOURCE, '-ldl'], {
    encoding: 'utf8',
  });
  if (built.error) {
    console.log(`      faults are not tested: ${compiler} is not installed`);
    return null;
  }
  if (built.status !== 0) throw new Error(built.stderr);
  return path;
}

/** Sends a command to the shim. Returns true if its fault has happened. */
export function tell(words: string): boolean {
  try {
    unlinkSync(`fault:${words}`);
  } catch (error) {
    return (error as { code: string }).code === 'EEXIST';
  }
  throw new Error('the shim is not there');
}
