/**
 * Declarations of kernels that a program supplies. They list the arguments of each kernel, and how
 * much of its tensors it touches.
 */
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { checkDType, type DType, dtypes } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { DeviceFamily } from '../facts.ts';

/** The numeric arguments of a launch. */
export interface LaunchNumbers {
  readonly wholes: readonly number[];
  readonly reals: readonly number[];
}

/**
 * The arguments of a kernel, in this order: tensors, whole numbers (`gk_i64`), reals (`gk_real`,
 * float32).
 */
export interface KernelDeclaration {
  /** dtype of each tensor, at most 12 */
  tensors: readonly DType[];
  /** count of whole numbers, at most 12 */
  wholes?: number;
  /** count of reals, at most 8 */
  reals?: number;
  /**
   * number of tensors that the kernel writes, which must be the first ones. It only reads the
   * others. By default all tensors count as written
   */
  writes?: number;
  /**
   * elements of the first tensor that a block computes together (GK_EACH_TILE). Omit it if each
   * thread computes one element
   */
  outputsPerBlock?: number;
  /**
   * Returns, for each tensor, the bytes that a launch with these numbers touches from its first
   * element on. A launch with a shorter tensor throws. `need` may also throw, for other invalid
   * numbers. Without `need`, Hotslot does not check lengths, so a kernel that runs past a tensor's
   * end touches the memory after the tensor.
   */
  need?: (numbers: LaunchNumbers) => readonly number[];
}

/**
 * A kernel on a device. It can be posted to another thread, but its function `need` cannot. So
 * launches from that thread do not check the lengths of tensors.
 */
export interface LoadedKernel {
  readonly name: string;
  /**
   * handle of the kernel's module, which is loaded on one device. `index` is the kernel's index in
   * the module
   */
  readonly handle: number;
  readonly index: number;
  readonly tensors: readonly DType[];
  readonly wholes: number;
  readonly reals: number;
  readonly writes: number;
}

/** An image: its bytes, or its path or URL. */
export type KernelImage = Uint8Array | URL | string;

/** Kernels that a program supplies, by name, and a source or images that contain them. */
export interface KernelsToLoad<K extends string = string> {
  /** name in messages, default 'kernels' */
  name?: string;
  /**
   * text of a `.gk` source, or the URL of a file that contains it. It is compiled if `images` lacks
   * the device's family
   */
  source?: string | URL;
  /**
   * ready images by family. The first one that the driver accepts is used. A `host` image is a
   * shared library with the C interface of native/kernels/library.h. A `cuda` image is PTX or a
   * cubin, a `rocm` image a code object, and an `xpu` image SPIR-V.
   */
  images?: { readonly [F in DeviceFamily]?: KernelImage | readonly KernelImage[] };
  kernels: { readonly [N in K]: KernelDeclaration };
}

/** A declaration with all defaults filled in. */
export type Declared = Required<Omit<KernelDeclaration, 'need'>> &
  Pick<KernelDeclaration, 'need'> & { name: string };

const MAX = { tensors: 12, wholes: 12, reals: 8, kernels: 1024 } as const;
const KEYS = ['tensors', 'wholes', 'reals', 'writes', 'outputsPerBlock', 'need'];

/** Returns the declarations in their order, with defaults. Throws if one is invalid. */
export function checkDeclarations(
  kernels: Readonly<Record<string, KernelDeclaration>>,
): Declared[] {
  if (typeof kernels !== 'object' || kernels === null || Array.isArray(kernels))
    throw typeError(
      `loadKernels: kernels must be declared by name, such as { saxpy: { tensors: […] } }, got ${describeValue(kernels)}`,
    );
  const names = Object.keys(kernels);
  if (names.length === 0) throw rangeError('loadKernels: declare at least one kernel, got none');
  if (names.length > MAX.kernels)
    throw rangeError(`loadKernels: at most ${MAX.kernels} kernels, got ${names.length}`);
  return names.map((name) => {
    if (!/^[A-Za-z_]\w*$/.test(name))
      throw typeError(`loadKernels: ${describeValue(name)} is not the name of a C function`);
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

/** Returns the kernels of a loaded module, by name. */
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

/** Returns whether `value` is a kernel that was loaded, in this thread or another one. */
export function isLoadedKernel(value: unknown): value is LoadedKernel {
  const kernel = value as Partial<LoadedKernel> | null | undefined;
  return (
    typeof kernel?.handle === 'number' &&
    typeof kernel.index === 'number' &&
    typeof kernel.name === 'string'
  );
}

/**
 * Throws unless each tensor has at least the bytes that the kernel's `need` returns for it. Does
 * nothing if this thread has no `need` of the kernel.
 */
export function checkNeed(
  kernel: LoadedKernel,
  tensors: readonly { readonly dtype: DType; readonly spanBytes: number }[],
  { wholes, reals }: LaunchNumbers,
): void {
  const need = needs.get(kernel);
  // If the arguments do not match the declaration, the launch itself throws.
  if (!need || tensors.length !== kernel.tensors.length) return;
  if (tensors.some(({ dtype }, i) => dtype !== kernel.tensors[i])) return;
  const needed = need({ wholes, reals });
  if (!Array.isArray(needed) || needed.length !== tensors.length)
    throw typeError(
      `kernel '${kernel.name}': need() gives the bytes of each of its ${tensors.length} tensors, got ${describeValue(needed)}`,
    );
  for (const [i, tensor] of tensors.entries()) {
    const bytes = checkCount(`kernel '${kernel.name}': need()[${i}]`, needed[i], 0);
    if (tensor.spanBytes < bytes)
      throw rangeError(
        `kernel '${kernel.name}': tensor ${i} covers ${tensor.spanBytes} bytes, ${bytes} are needed (${kernel.tensors[i]}: ${bytes / dtypes[kernel.tensors[i] as DType].bytes} elements)`,
      );
  }
}
