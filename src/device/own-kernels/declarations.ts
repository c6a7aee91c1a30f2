/**
 * How kernels that a program brings are declared: what each takes, and how much of its tensors it
 * touches.
 */
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { checkDType, type DType, dtypes } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { DeviceFamily } from '../facts.ts';

/** The numbers of a launch. */
export interface LaunchNumbers {
  readonly wholes: readonly number[];
  readonly reals: readonly number[];
}

/**
 * What a kernel takes: tensors, then whole numbers (`gk_i64`), then reals (`gk_real`, float32), in
 * this order.
 */
export interface KernelDeclaration {
  /** dtype of each tensor, at most 12 */
  tensors: readonly DType[];
  /** how many whole numbers, at most 12 */
  wholes?: number;
  /** how many reals, at most 8 */
  reals?: number;
  /** the first of the tensors are written, the others only read; without it all count as written */
  writes?: number;
  /**
   * elements of the first tensor that a block makes together, where its threads do not make one
   * each (GK_EACH_TILE)
   */
  outputsPerBlock?: number;
  /**
   * The bytes that such a launch touches of each tensor, from its first element on: a launch with
   * less is refused. Throws what else is wrong with the numbers. Without it lengths are not
   * checked: a kernel that runs past a tensor's end runs into whatever lies there.
   */
  need?: (numbers: LaunchNumbers) => readonly number[];
}

/**
 * A kernel on a device. It can be posted to another thread, which launches it there; `need` stays
 * behind.
 */
export interface LoadedKernel {
  readonly name: string;
  /**
   * of the module that it is part of, on the device that it was loaded on; `index`: which of its
   * kernels
   */
  readonly handle: number;
  readonly index: number;
  readonly tensors: readonly DType[];
  readonly wholes: number;
  readonly reals: number;
  readonly writes: number;
}

/** An image: its bytes, or where it lies. */
export type KernelImage = Uint8Array | URL | string;

/** What a program brings: kernels by name, and a source or images that hold them. */
export interface KernelsToLoad<K extends string = string> {
  /** for messages; without it 'kernels' */
  name?: string;
  /**
   * a `.gk` source, or the URL of a file that holds one; compiled where there is no image for the
   * device's family
   */
  source?: string | URL;
  /**
   * Ready images by family, of several the first that the driver takes: for `host` a shared library
   * with the C interface of native/kernels/library.h, for `cuda` PTX or a cubin, for `rocm` a code
   * object, for `xpu` SPIR-V.
   */
  images?: { readonly [F in DeviceFamily]?: KernelImage | readonly KernelImage[] };
  kernels: { readonly [N in K]: KernelDeclaration };
}

/** A declaration with everything said. */
export type Declared = Required<Omit<KernelDeclaration, 'need'>> &
  Pick<KernelDeclaration, 'need'> & { name: string };

const MAX = { tensors: 12, wholes: 12, reals: 8, kernels: 1024 } as const;
const KEYS = ['tensors', 'wholes', 'reals', 'writes', 'outputsPerBlock', 'need'];

/** Throws for what cannot be; the declarations in their order. */
export function checkDeclarations(
  kernels: Readonly<Record<string, KernelDeclaration>>,
): Declared[] {
  if (typeof kernels !== 'object' || kernels === null || Array.isArray(kernels))
    throw typeError(
      `loadKernels: kernels are declared by name, { saxpy: { tensors: […] } }, got ${describeValue(kernels)}`,
    );
  const names = Object.keys(kernels);
  if (names.length === 0) throw rangeError('loadKernels: no kernel is declared');
  if (names.length > MAX.kernels)
    throw rangeError(`loadKernels: at most ${MAX.kernels} kernels, got ${names.length}`);
  return names.map((name) => {
    if (!/^[A-Za-z_]\w*$/.test(name))
      throw typeError(`loadKernels: ${describeValue(name)} is no name of a C function`);
    const what = `loadKernels: kernel '${name}'`;
    const declared = kernels[name] as KernelDeclaration;
    checkKeys(what, declared, KEYS);
    const { tensors, wholes = 0, reals = 0, outputsPerBlock = 0, need } = declared;
    if (!Array.isArray(tensors))
      throw typeError(`${what}: tensors is a list of dtypes, got ${describeValue(tensors)}`);
    for (const [i, dtype] of tensors.entries())
      checkDType(`${what}: tensors[${i}]`, dtype as DType);
    checkCount(`${what}: the number of tensors`, tensors.length, 1, MAX.tensors);
    const { writes = tensors.length } = declared;
    checkCount(`${what}: wholes`, wholes, 0, MAX.wholes);
    checkCount(`${what}: reals`, reals, 0, MAX.reals);
    checkCount(`${what}: writes`, writes, 0, tensors.length);
    checkCount(`${what}: outputsPerBlock`, outputsPerBlock, 0, 65_535);
    if (need !== undefined && typeof need !== 'function')
      throw typeError(`${what}: need is a function, got ${describeValue(need)}`);
    return {
      name,
      tensors: [...tensors] as DType[],
      wholes,
      reals,
      writes,
      outputsPerBlock,
      ...(need && { need }),
    };
  });
}

const needs = new WeakMap<LoadedKernel, NonNullable<KernelDeclaration['need']>>();

/** The kernels of a loaded module, by name. */
export function loadedKernels<K extends string>(
  handle: number,
  declared: readonly Declared[],
): Record<K, LoadedKernel> {
  const all = declared.map(({ name, tensors, wholes, reals, writes, need }, index) => {
    const kernel: LoadedKernel = Object.freeze({
      name,
      handle,
      index,
      tensors,
      wholes,
      reals,
      writes,
    });
    if (need) needs.set(kernel, need);
    return [name, kernel] as const;
  });
  return Object.fromEntries(all) as Record<K, LoadedKernel>;
}

/** Whether it is a kernel that was loaded, here or in another thread. */
export function isLoadedKernel(value: unknown): value is LoadedKernel {
  const kernel = value as Partial<LoadedKernel> | null | undefined;
  return (
    typeof kernel?.handle === 'number' &&
    typeof kernel.index === 'number' &&
    typeof kernel.name === 'string'
  );
}

/** Throws unless the tensors have what the kernel's `need` asks for, where it has one here. */
export function checkNeed(
  kernel: LoadedKernel,
  tensors: readonly { readonly dtype: DType; readonly spanBytes: number }[],
  { wholes, reals }: LaunchNumbers,
): void {
  const need = needs.get(kernel);
  // What is no such launch at all, the launch itself says.
  if (!need || tensors.length !== kernel.tensors.length) return;
  if (tensors.some(({ dtype }, i) => dtype !== kernel.tensors[i])) return;
  const asked = need({ wholes, reals });
  if (!Array.isArray(asked) || asked.length !== tensors.length)
    throw typeError(
      `kernel '${kernel.name}': need() gives the bytes of each of its ${tensors.length} tensors, got ${describeValue(asked)}`,
    );
  for (const [i, tensor] of tensors.entries()) {
    const bytes = checkCount(`kernel '${kernel.name}': need()[${i}]`, asked[i], 0);
    if (tensor.spanBytes < bytes)
      throw rangeError(
        `kernel '${kernel.name}': tensor ${i} covers ${tensor.spanBytes} bytes, ${bytes} are needed (${kernel.tensors[i]}: ${bytes / dtypes[kernel.tensors[i] as DType].bytes} elements)`,
      );
  }
}
