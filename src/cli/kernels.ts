/**
 * `hotslot kernels`: compiles a `.gk` source to an image for each device family for which this
 * machine has a compiler.
 */
import { copyFile, mkdir, readFile } from 'node:fs/promises';
import { basename, dirname, extname, join } from 'node:path';
import type { CodedError } from '../base/errors.ts';
import { codeObject, compileWith, formats, missingFor } from '../device/own-kernels/compilers.ts';
import { kernelsIn } from '../device/own-kernels/source.ts';

interface Arguments {
  file: string;
  /** folder of the images (default: the folder of the source) */
  out: string | undefined;
  /** name of the AMD GPU for a rocm image, such as gfx90a (default: no rocm image) */
  arch: string | undefined;
  print(text: string): void;
}

/**
 * Resolves with exit code 0 if at least one image was made. Resolves with 1 if no compiler was
 * found, if the source does not compile, or if a file cannot be read or written.
 */
export async function kernels({ file, out, arch, print }: Arguments): Promise<0 | 1> {
  const fail = (sentence: string): 1 => {
    process.stderr.write(`hotslot: ${sentence}\n`);
    return 1;
  };
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    return fail(`${file} cannot be read: ${(error as Error).message}`);
  }
  const names = kernelsIn(text);
  if (names.length === 0)
    return fail(
      `${file} has no kernel; a kernel begins with GK_KERNEL name(GK_G float* out, …), see docs/how-to/custom-kernel.md`,
    );
  print(`${file}: ${names.join(', ')}\n`);
  const folder = out ?? dirname(file);
  const wanted = [
    ['host', formats.host],
    ['cuda', formats.ptx],
    ['xpu', formats.spirv],
    ...(arch === undefined ? [] : [['rocm', codeObject(arch)] as const]),
  ] as const;
  let made = 0;
  try {
    await mkdir(folder, { recursive: true });
    for (const [family, format] of wanted) {
      const missing = await missingFor(format);
      if (missing !== null) {
        print(`${family.padEnd(5)} not made: install ${missing}\n`);
        continue;
      }
      const path = join(folder, `${basename(file, extname(file))}${format.ending}`);
      await copyFile(await compileWith(format, { text, file }, names), path);
      print(`${family.padEnd(5)} ${path}\n`);
      made++;
    }
  } catch (error) {
    if ((error as CodedError).code?.startsWith('ERR_HOTSLOT'))
      return fail((error as Error).message);
    return fail(`the images could not be put into ${folder}: ${(error as Error).message}`);
  }
  if (arch === undefined) print('rocm  not requested: --arch gfx90a names the GPU\n');
  return made > 0 ? 0 : fail('no compiler was found');
}
