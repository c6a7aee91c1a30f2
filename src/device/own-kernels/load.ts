/**
 * Loads kernels that a program supplies onto a device, from a ready image or from a source that
 * this machine compiles.
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkKeys, describeValue } from '../../base/checks.ts';
import { dtypes } from '../../base/dtype.ts';
import { type CodedError, typeError, unavailableError } from '../../base/errors.ts';
import type { DeviceFamily } from '../facts.ts';
import { nativeKernels } from '../native.ts';
import { cachedBytes, contentKey } from './cache.ts';
import { compileWith, formats, missingFor } from './compilers.ts';
import {
  checkDeclarations,
  type Declared,
  type KernelImage,
  type KernelsToLoad,
  type LoadedKernel,
  loadedKernels,
} from './declarations.ts';
import { headers, type KernelSource, readSource } from './source.ts';

const families = ['host', 'cuda', 'rocm', 'xpu'] as const satisfies readonly DeviceFamily[];

/**
 * Loads the kernels on this device, and returns them by name. A process loads them once per device,
 * however often this function is called.
 */
export async function loadKernels<K extends string>(
  device: { readonly handle: number; readonly family: DeviceFamily; readonly name: string },
  options: KernelsToLoad<K>,
): Promise<Record<K, LoadedKernel>> {
  checkKeys('loadKernels', options, ['name', 'source', 'images', 'kernels']);
  const { name = 'kernels', source, images = {} } = options;
  if (typeof name !== 'string' || name === '')
    throw typeError(`loadKernels: name must be a text, got ${describeValue(name)}`);
  checkKeys('loadKernels: images', images, families);
  const declared = checkDeclarations(options.kernels);
  const given = images[device.family];
  const ready = await Promise.all(
    (given === undefined ? [] : [...listOf(given)]).map((image) => read(device.family, image)),
  );
  if (ready.length === 0 && source === undefined)
    throw unavailableError(
      `kernels '${name}' have neither an image for ${device.family} devices nor a source: npx hotslot kernels makes images of a .gk source`,
    );
  const text = ready.length === 0 ? await readSource(name, source as string | URL) : null;
  const key = contentKey(
    name,
    JSON.stringify(declared),
    text?.text ?? '',
    ...ready.map(({ bytes }) => bytes),
  );
  const known = nativeKernels().loadedKernels(device.handle, key);
  if (known !== 0) return loadedKernels<K>(known, declared);
  const put = async (these: readonly Named[], from: KernelSource | null) => {
    const request = requestOf(name, declared, these, from);
    return loadedKernels<K>(
      await nativeKernels().loadKernels(device.handle, key, request),
      declared,
    );
  };
  if (text === null)
    return put(await Promise.all(ready.map((image) => named(device.family, image))), null);
  const format = { host: formats.host, cuda: formats.ptx, rocm: null, xpu: formats.spirv }[
    device.family
  ];
  if (device.family === 'cuda' || device.family === 'rocm')
    try {
      return await put([], text); // the driver compiles the source
    } catch (error) {
      const cannot = (error as CodedError).code === 'ERR_HOTSLOT_UNAVAILABLE';
      if (!cannot || format === null || (await missingFor(format)) !== null) throw error;
    }
  const names = declared.map((kernel) => kernel.name);
  const path = await compileWith(format as NonNullable<typeof format>, text, names);
  return put([{ name: path, image: device.family === 'host' ? path : await readFile(path) }], null);
}

/** An image that was read. `path` is its file, if it was read from a file. */
interface Ready {
  name: string;
  bytes: Uint8Array;
  path?: string;
}

const listOf = (given: KernelImage | readonly KernelImage[]): readonly KernelImage[] =>
  Array.isArray(given) ? given : [given as KernelImage];

async function read(family: DeviceFamily, image: KernelImage): Promise<Ready> {
  if (image instanceof Uint8Array)
    return checked(family, { name: `an image of ${image.length} bytes`, bytes: image });
  if (typeof image !== 'string' && !(image instanceof URL && image.protocol === 'file:'))
    throw typeError(
      `loadKernels: an image is its bytes, a path or a file's URL, got ${describeValue(image)}`,
    );
  const path = typeof image === 'string' ? resolve(image) : fileURLToPath(image);
  try {
    return checked(family, { name: path, bytes: await readFile(path), path });
  } catch (error) {
    if ((error as CodedError).code?.startsWith('ERR_HOTSLOT')) throw error;
    throw unavailableError(
      `loadKernels: the image cannot be read: ${(error as Error).message}`,
      undefined,
      error,
    );
  }
}

/**
 * Returns the kind and the family of an image, as its first bytes show them, or null for unknown
 * bytes.
 */
function kindOf(bytes: Uint8Array): { kind: string; family: DeviceFamily } | null {
  // The array is empty, or its buffer was transferred.
  if (bytes.length === 0) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length >= 20 && view.getUint32(0) === 0x7f454c46) {
    const machine = view.getUint16(18, true);
    if (machine === 190) return { kind: 'a cubin', family: 'cuda' };
    if (machine === 224) return { kind: 'a code object for AMD GPUs', family: 'rocm' };
    return { kind: 'a shared library', family: 'host' };
  }
  if (bytes.length >= 4 && view.getUint32(0, true) === 0x07230203)
    return { kind: 'SPIR-V', family: 'xpu' };
  if (
    /^\s*(\/\/.*\n\s*|\/\*[\s\S]*?\*\/\s*)*\.version\s/.test(
      Buffer.from(bytes.subarray(0, 4096)).toString('latin1'),
    )
  )
    return { kind: 'PTX', family: 'cuda' };
  return null;
}

const takes: Record<DeviceFamily, string> = {
  host: 'a shared library',
  cuda: 'PTX or a cubin',
  rocm: 'a code object for AMD GPUs',
  xpu: 'SPIR-V',
};

function checked(family: DeviceFamily, image: Ready): Ready {
  const known = kindOf(image.bytes);
  if (known !== null && known.family !== family)
    throw typeError(
      `loadKernels: ${image.name} is ${known.kind}; ${family} devices take ${takes[family]}`,
    );
  if (known === null && (family === 'host' || family === 'xpu'))
    throw typeError(`loadKernels: ${image.name} is no ${takes[family].replace('a ', '')}`);
  return image;
}

/**
 * An image for the native call. A library for CPU devices is passed by its path, and every other
 * image by its bytes.
 */
interface Named {
  name: string;
  image: string | Uint8Array;
}

async function named(family: DeviceFamily, { name, bytes, path }: Ready): Promise<Named> {
  if (family !== 'host') return { name, image: bytes };
  return { name, image: path ?? (await cachedBytes(bytes, formats.host.ending)) };
}

function requestOf(
  name: string,
  declared: readonly Declared[],
  images: readonly Named[],
  source: KernelSource | null,
) {
  const kernels = declared.map(({ name, tensors, wholes, reals, outputsPerBlock }) => ({
    name,
    codes: tensors.map((dtype) => dtypes[dtype].code),
    wholes,
    reals,
    outputsPerBlock,
  }));
  return {
    name,
    kernels,
    images,
    file: source?.file ?? '',
    source: source?.text ?? '',
    headers: source ? headers() : [],
  };
}
