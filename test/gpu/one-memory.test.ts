/**
 * Tests launches whose tensors share memory. launch() must throw if a kernel writes elements of
 * another tensor. Some kernels may write their output over an input. In place they must write the
 * same values as with separate tensors. The expected answer is computed from each byte of the
 * tensors.
 */
import { expect } from 'chai';
import { dtypes, type TypedArray } from '../../src/base/dtype.ts';
import { nativeKernels } from '../../src/device/native.ts';
import { CpuTensor, type Device, openDevice } from '../../src/index.ts';
import { firstDifference } from '../rig/same-bits.ts';
import { TESTED } from '../rig/tested-device.ts';
import { kernelCases, type LaunchCase } from './kernel-cases.ts';
import { inPlaceCases, opCases } from './op-cases.ts';

/** Tensors begin at multiples of this number of bytes. */
const UNIT = 16;
const upToUnit = (bytes: number) => Math.ceil(bytes / UNIT) * UNIT;

interface Reach {
  readonly bytes: number;
  /** distance of rows in bytes, or 0 if the bytes are contiguous */
  readonly step: number;
}

function reachOf(kernel: string, { wholes = [], reals = [] }: LaunchCase): Reach[] {
  const list = nativeKernels().kernelReach(
    kernel,
    Float64Array.of(...wholes, ...reals),
    wholes.length,
    reals.length,
  );
  return Array.from({ length: list.length / 2 }, (_, i) => ({
    bytes: list[2 * i]!,
    step: list[2 * i + 1]!,
  }));
}

/** Returns 1 for each byte that a launch touches, counted from the tensor's first byte. */
function touched({ bytes, step }: Reach): Uint8Array {
  const marks = new Uint8Array(bytes);
  if (step === 0) return marks.fill(1);
  const width = ((bytes - 1) % step) + 1;
  for (let at = 0; at < bytes; at += step) marks.fill(1, at, at + width);
  return marks;
}

/** Returns whether `a` and `b` share a byte if `b` begins `shift` bytes after `a`. */
function meet(a: Uint8Array, b: Uint8Array, shift: number): boolean {
  for (let at = Math.max(0, -shift); at < b.length && at + shift < a.length; at++)
    if (b[at] === 1 && a[at + shift] === 1) return true;
  return false;
}

const sameMarks = (a: Uint8Array, b: Uint8Array) => Buffer.compare(a, b) === 0;

describe(`launches on ${TESTED} whose tensors share memory`, () => {
  let device: Device;
  before(() => {
    device = openDevice(TESTED);
  });

  /**
   * Launches with tensor `moved` beginning `shift` bytes after tensor `fixed`. Returns the values
   * of all tensors after the launch.
   */
  async function launched(
    kernel: string,
    { tensors, dtypes: own = [], wholes = [], reals = [] }: LaunchCase,
    { fixed = -1, moved = -1, shift = 0 } = {},
  ): Promise<TypedArray[]> {
    const stream = device.currentStream;
    const places = new Array<number>(tensors.length).fill(0);
    let end = Math.max(0, upToUnit(-shift));
    tensors.forEach(({ byteLength }, i) => {
      if (i === moved) return;
      places[i] = end;
      end +=
        upToUnit(byteLength) +
        (i === fixed ? upToUnit(Math.max(0, shift) + tensors[moved]!.byteLength) : UNIT);
    });
    if (moved >= 0) places[moved] = places[fixed]! + shift;
    using memory = device.allocate({ shape: [end], dtype: 'uint8' });
    const part = (i: number) =>
      memory.view({ shape: [tensors[i]!.byteLength], offset: places[i]! });
    const bytes = ({ buffer, byteOffset, byteLength }: TypedArray) =>
      new Uint8Array(buffer, byteOffset, byteLength);
    // Memory that two tensors share has the values of the tensor that is read.
    tensors.forEach(
      (values, i) => void (i === fixed || part(i).write(bytes(values) as Uint8Array<ArrayBuffer>)),
    );
    const fields = tensors.flatMap((values, i) => {
      const dtype = new CpuTensor(values, [values.length], own[i]).dtype;
      return [
        memory.handle,
        memory.byteOffset + places[i]!,
        values.byteLength,
        dtypes[dtype].code,
        -1,
        2 ** 52,
      ];
    });
    const numbers = Float64Array.of(...fields, ...wholes, ...reals);
    nativeKernels().launch(
      stream.handle,
      kernel,
      numbers,
      tensors.length,
      wholes.length,
      reals.length,
    );
    const got: TypedArray[] = [];
    for (const [i, values] of tensors.entries()) {
      const raw = (await part(i).toArray(stream)) as Uint8Array;
      got.push(
        new (values.constructor as Uint32ArrayConstructor)(
          raw.slice().buffer,
        ) as unknown as TypedArray,
      );
    }
    return got;
  }

  const facts = new Map(
    nativeKernels()
      .kernels()
      .map((each) => [each.name, each]),
  );
  const cases = new Map<string, LaunchCase[]>();
  for (const [, kernel, launch] of [...kernelCases, ...inPlaceCases, ...opCases]) {
    const bytes = launch.tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
    if (kernel.startsWith('halo') || bytes > 2 ** 20) continue;
    cases.set(kernel, [...(cases.get(kernel) ?? []), launch]);
  }

  for (const [kernel, launches] of cases) {
    const { writes, inPlace } = facts.get(kernel)!;
    it(`${kernel} throws if an output shares an element with another tensor${inPlace ? ', except in place' : ''}`, async () => {
      let [refused, taken] = [0, 0];
      for (const launch of launches.slice(0, 2)) {
        const reach = reachOf(kernel, launch);
        const marks = reach.map(touched);
        for (const [written, own] of marks.entries())
          for (const [other, its] of marks.entries()) {
            if (!((writes >> written) & 1) || written === other) continue;
            const { step, bytes } = reach[written]!;
            const beside = upToUnit(((bytes - 1) % (step || bytes)) + 1);
            for (const shift of [
              0,
              UNIT,
              -UNIT,
              beside,
              upToUnit(launch.tensors[written]!.byteLength),
            ]) {
              const what = `tensor ${other} ${shift} bytes behind tensor ${written}`;
              // Pointer 0 may be an input, and so may another output that may be pointer 0.
              const same = inPlace | 1;
              const inIt =
                ((same >> written) & 1) === 1 &&
                ((same >> other) & 1) === 1 &&
                shift === 0 &&
                sameMarks(own, its);
              const act = () => launched(kernel, launch, { fixed: written, moved: other, shift });
              if (meet(own, its, shift) && !inIt) {
                const { code, message } = await act().then(
                  () => ({ code: null, message: what }),
                  (error: { code: string; message: string }) => error,
                );
                expect([code, message]).to.deep.equal(['ERR_HOTSLOT_RANGE', message]);
                expect(message).to.match(
                  /^kernel '\w+': tensor \d is written and shares memory with tensor \d+: pass .+/,
                );
                refused++;
              } else {
                await act().catch((error) => expect.fail(`${what}: ${error}`));
                taken++;
              }
            }
          }
      }
      if (reachOf(kernel, launches[0]!).length > 1) expect(Math.min(refused, taken)).to.be.above(0);
    });

    if (inPlace)
      it(`${kernel} writes the same bits in place as with separate tensors`, async () => {
        let compared = 0;
        for (const launch of launches) {
          const reach = reachOf(kernel, launch);
          for (let other = 1; other < reach.length; other++) {
            if (!((inPlace >> other) & 1) || !sameMarks(touched(reach[0]!), touched(reach[other]!)))
              continue;
            // Before the launch, the output has the same values as the input.
            const tensors = launch.tensors.map((values, i) => {
              if (i > 0) return values;
              const before = launch.tensors[other]!;
              return new Float32Array(before.buffer, before.byteOffset, values.length).slice();
            });
            const [want] = await launched(kernel, { ...launch, tensors });
            const [got] = await launched(kernel, launch, { fixed: 0, moved: other });
            expect(firstDifference(got!, want!), `${kernel} over tensor ${other}`).to.equal(-1);
            compared++;
          }
        }
        expect(compared).to.be.above(0);
      });
  }
});
