/** What halo tests share: the cases that the source computed, quantities on cpu and on the tested device, a plain reference. */
import { readFileSync } from 'node:fs';
import { arrayOf, type DType, dtypeOf, dtypes, elementCount, type TypedArray } from '../../src/dtype.ts';
import {
  HaloDataTransformer,
  HaloExchangeSpec,
  type HaloQuantity,
  type HaloRange,
  QuantityHaloSpec,
} from '../../src/halo/index.ts';
import { type Device, openDevice, Tensor } from '../../src/index.ts';
import { TESTED } from '../rig/tested-device.ts';

/** 60 cases computed by NDSL's CPU transformer: memory before, what it packed, what it was given to unpack, memory after. */
export interface GoldenCase {
  name: string;
  kind: 'scalar' | 'vector';
  dtype: 'float32' | 'float64';
  dims: string[];
  shape: number[];
  strides: number[];
  nHalo: number;
  origin: number[];
  extent: number[];
  clockwiseRotation: number;
  edges: string[];
  descriptors: { pack: [number, number][]; unpack: [number, number][] }[][];
  /** base64 of each component's memory */
  before: string[];
  packBuffer: string;
  unpackBuffer: string;
  after: string[];
}
const fixture = new URL('../../../test/fixtures/halo_ndsl.json', import.meta.url);
export const golden: GoldenCase[] = JSON.parse(readFileSync(fixture, 'utf8')).cases;

export function decoded(base64: string, dtype: DType): TypedArray {
  const bytes = new Uint8Array(Buffer.from(base64, 'base64'));
  return new dtypes[dtype].array(bytes.buffer as ArrayBuffer) as TypedArray;
}
/** Bits, so that signs of zeros and NaNs count. */
export const bits = (values: TypedArray) =>
  Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('hex');

let opened: Device | undefined;
export function tested(): Device {
  opened ??= openDevice(TESTED);
  return opened;
}
export function closeTested(): void {
  opened?.close();
  opened = undefined;
}

export const places = ['cpu', TESTED] as const;
export const deviceAt = (place: string): Device | 'cpu' => (place === 'cpu' ? 'cpu' : tested());

/** Of a place's own memory, with these values; `close` gives it back. */
export function memoryAt(place: string, values: TypedArray, dtype = dtypeOf(values) as DType): TypedArray | Tensor {
  if (place === 'cpu') return values.slice();
  const tensor = tested().allocate({ shape: [values.length], dtype, zeroed: false });
  return tensor.write(values);
}
export async function valuesAt(memory: TypedArray | Tensor): Promise<TypedArray> {
  return memory instanceof Tensor ? memory.toArray() : memory;
}
export function close(...memories: (TypedArray | Tensor)[]): void {
  for (const each of memories) if (each instanceof Tensor) each.close();
}
/** Puts values into a buffer, in the current stream's order on a device. */
export function fill(buffer: TypedArray | Tensor, values: TypedArray): void {
  if (buffer instanceof Tensor) buffer.write(values);
  else (buffer as Float32Array).set(values as Float32Array);
}

export function goldenSpecs(of: GoldenCase, component: number): HaloExchangeSpec[] {
  const { nHalo: nPoints, shape, strides, origin, extent, dims, dtype } = of;
  const itemsize = dtypes[dtype].bytes;
  const specification = new QuantityHaloSpec({
    ...{ nPoints, shape, strides, itemsize, origin, extent, dims, dtype },
  });
  return of.descriptors.map(
    (components) =>
      new HaloExchangeSpec({
        specification,
        packSlices: components[component]!.pack,
        packClockwiseRotation: of.clockwiseRotation,
        unpackSlices: components[component]!.unpack,
      }),
  );
}

export function goldenTransformer(of: GoldenCase, place: string): HaloDataTransformer {
  const y = of.kind === 'vector' ? goldenSpecs(of, 1) : null;
  return HaloDataTransformer.get(deviceAt(place), goldenSpecs(of, 0), y);
}
/** One quantity, as often as there are descriptors: what a rank with several edges to one neighbour gives. */
export function repeated(of: GoldenCase, data: TypedArray | Tensor): HaloQuantity[] {
  const { shape, strides, dims } = of;
  return of.descriptors.map(() => ({ data, shape, strides, dims }));
}

// ---- the plain reference ---------------------------------------------------------------------------------------------

/** Where a range's elements lie in the array, in row-major order after n counter-clockwise quarter turns. */
export function walked(spec: QuantityHaloSpec, slices: readonly HaloRange[], n: number): number[] {
  const [x, y] = [spec.xDim, spec.yDim];
  const extents = slices.map(([start, stop]) => stop - start);
  const both = x >= 0 && y >= 0;
  const turned = [...extents];
  if (both && n % 2 === 1) [turned[x], turned[y]] = [extents[y]!, extents[x]!];
  return Array.from({ length: elementCount(turned) }, (_, at) => {
    const index = turned.map(() => 0);
    let left = at;
    for (let d = turned.length - 1; d >= 0; d--) {
      index[d] = left % turned[d]!;
      left = Math.floor(left / turned[d]!);
    }
    const from = [...index];
    const last = (d: number) => extents[d]! - 1;
    if (both) {
      const [a, b] = [index[x]!, index[y]!];
      const turns = [
        [a, b],
        [last(x) - b, a],
        [last(x) - a, last(y) - b],
        [b, last(y) - a],
      ];
      [from[x], from[y]] = turns[n] as [number, number];
    } else {
      if (x >= 0 && (n === 1 || n === 2)) from[x] = last(x) - index[x]!;
      if (y >= 0 && (n === 3 || n === 2)) from[y] = last(y) - index[y]!;
    }
    return from.reduce((sum, i, d) => sum + (i + slices[d]![0]) * spec.strides[d]!, 0);
  });
}

const turnsOf = (rotation: number) => (((-rotation % 4) + 4) % 4) as 0 | 1 | 2 | 3;

/** What leaves: one array per descriptor, or x and y of each. */
export function packedBy(specs: readonly HaloExchangeSpec[][], data: readonly TypedArray[][]): TypedArray {
  const out: (number | bigint)[] = [];
  specs.forEach((components, i) => {
    const n = turnsOf(components[0]!.packClockwiseRotation);
    const vector = components.length === 2;
    components.forEach((_, which) => {
      const from = vector && n % 2 === 1 ? 1 - which : which;
      const negative = vector && (which === 0 ? n === 2 || n === 3 : n === 1 || n === 2);
      const { specification, packSlices } = components[from]!;
      for (const at of walked(specification, packSlices, n)) {
        const value = data[i]![from]![at] as number;
        out.push(negative ? -value : value);
      }
    });
  });
  const { dtype } = specs[0]![0]!.specification;
  const buffer = arrayOf(dtype, out.length);
  for (const [i, value] of out.entries()) (buffer as Float32Array)[i] = value as number;
  return buffer;
}

export function unpackInto(
  specs: readonly HaloExchangeSpec[][],
  data: readonly TypedArray[][],
  buffer: TypedArray,
): void {
  let at = 0;
  specs.forEach((components, i) => {
    components.forEach(({ specification, unpackSlices }, which) => {
      for (const to of walked(specification, unpackSlices, 0))
        (data[i]![which] as Float32Array)[to] = buffer[at++] as number;
    });
  });
}
