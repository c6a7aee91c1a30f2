/** Builds fault_shim.c, and talks to it in a process that it is in. */
import { spawnSync } from 'node:child_process';
import { unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SOURCE = fileURLToPath(new URL('../../../test/checkpoint/fault_shim.c', import.meta.url));

/** The library, built in the folder; null where there is no compiler, which is then said. */
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

/** Tells the shim; whether it had struck. */
export function tell(words: string): boolean {
  try {
    unlinkSync(`fault:${words}`);
  } catch (error) {
    return (error as { code: string }).code === 'EEXIST';
  }
  throw new Error('the shim is not there');
}
