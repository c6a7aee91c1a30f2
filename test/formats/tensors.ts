/** Tensors of every dtype and many shapes with random bits, and temporary folders for files. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { type ArrayOf, arrayOf, type DType, dtypes, elementCount } from '../../src/base/dtype.ts';
import { Random } from '../../src/base/random.ts';
import type { NamedTensors, TensorData } from '../../src/entries/formats.ts';

export const allDTypes = Object.keys(dtypes) as DType[];
export const bytesOf = (data: ArrayOf<DType>) =>
  new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

/** Makes a tensor of random bits, among them NaNs of any payload, −0 and the largest integers. */
export function tensor(dtype: DType, shape: readonly number[], seed = 1): TensorData {
  const random = new Random(seed);
  const data = arrayOf(dtype, elementCount(shape));
  const bytes = bytesOf(data);
  for (let i = 0; i < bytes.length; i++) bytes[i] = random.below(dtype === 'bool' ? 2 : 256);
  return { dtype, shape, data };
}

/**
 * Shapes: a scalar, an empty one, many dimensions, and one that is larger than a writer's piece.
 */
export const shapes: Readonly<Record<string, readonly number[]>> = {
  scalar: [],
  empty: [3, 0, 2],
  one: [1],
  odd: [7],
  deep: Array.from({ length: 32 }, (_, i) => (i % 8 === 3 ? 2 : 1)),
  wide: [3, 70_001],
};

export const manyTensors = (which: readonly DType[] = allDTypes): NamedTensors =>
  Object.fromEntries(
    which.flatMap((dtype, i) =>
      Object.entries(shapes).map(([name, shape], j) => [
        `${dtype}.${name}`,
        tensor(dtype, shape, 100 * i + j),
      ]),
    ),
  );

export function expectSame(found: NamedTensors, wanted: NamedTensors): void {
  expect(Object.keys(found).sort()).to.deep.equal(Object.keys(wanted).sort());
  for (const [name, { dtype, shape, data }] of Object.entries(wanted)) {
    const other = found[name] as TensorData;
    expect([other.dtype, other.shape, other.data.constructor], name).to.deep.equal([
      dtype,
      shape,
      data.constructor,
    ]);
    expect(Buffer.compare(bytesOf(other.data), bytesOf(data)), name).to.equal(0);
  }
}

/**
 * Calls `use` with a temporary folder. With `leaves`, the folder must then contain exactly these
 * names.
 */
export async function inFolder(
  use: (folder: string) => Promise<void>,
  leaves?: readonly string[],
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-formats-'));
  try {
    await use(folder);
    if (leaves !== undefined) expect(readdirSync(folder).sort()).to.deep.equal(leaves);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
