/**
 * Cases of `sample_torch.json`: uniform draws and the rows packed from them, compared by their
 * hashes.
 */
import { createHash } from 'node:crypto';
import { ReplayBuffer, uniformIndices } from '../../src/index.ts';
import { same, sameList } from './differences.ts';

export interface SampleCase {
  seed: number;
  size: number;
  count: number;
  width: number;
  /** the first indices */
  head: number[];
  /** SHA-256 of the indices as int64, little-endian */
  indicesSha256: string;
  /** SHA-256 of the packed float32 rows */
  packedSha256: string;
}

function sha256(array: Float32Array | Uint8Array | BigInt64Array): string {
  return createHash('sha256')
    .update(new Uint8Array(array.buffer, array.byteOffset, array.byteLength))
    .digest('hex');
}

function storage(size: number, width: number): Float32Array {
  return Float32Array.from(
    { length: size * width },
    (_, k) => (Math.imul(k, 2654435761) >>> 0) / 2 ** 32 - 0.5,
  );
}

export const sampleName = ({ seed, size, count, width }: SampleCase): string =>
  `seed ${seed}, ${count} of ${size} rows of ${width}`;

export function checkSample(golden: SampleCase): void {
  const { seed, size, count, width } = golden;
  const drawn = uniformIndices({ seed, size, count });
  sameList('head', drawn.subarray(0, golden.head.length), golden.head);
  const wide = BigInt64Array.from(drawn, BigInt);
  same('indicesSha256', sha256(wide), golden.indicesSha256);

  using buffer = ReplayBuffer.create({ capacity: size, fields: { x: { shape: [width] } } });
  buffer.add({ x: storage(size, width) });
  const packed = new Float32Array(count * width);
  same('packedSha256', sha256(buffer.gather(drawn, packed)), golden.packedSha256);
  packed.fill(0);
  same('packedSha256 by int64 indices', sha256(buffer.gather(wide, packed)), golden.packedSha256);
  const indices = new Uint32Array(count);
  const sample = buffer.sample<Float32Array>({ seed, count, indices });
  same('packedSha256 of sample()', sha256(sample.rows), golden.packedSha256);
  sameList('the indices of sample()', indices, drawn);
}
