/**
 * Tests packing and unpacking: NDSL's stored cases bit for bit, and random cases against the plain
 * reference.
 */
import { expect } from 'chai';
import { arrayOf, type DType, dtypes } from '../../src/base/dtype.ts';
import {
  HaloDataTransformer,
  type HaloDataTransformerHost,
  HaloExchangeSpec,
  type HaloQuantity,
  type HaloRange,
  QuantityHaloSpec,
} from '../../src/entries/halo.ts';
import { Tensor } from '../../src/index.ts';
import { bits, checkHaloOn, decoded, goldenTransformer, repeated } from '../golden/halo.ts';
import { refusal } from '../rig/refusal.ts';
import { itLonger, setting } from '../rig/setting.ts';
import { golden, packedBy, unpackInto } from './cases.ts';
import { close, closeTested, deviceAt, fill, memoryAt, places, valuesAt } from './places.ts';
import { below, dimLists, pick, randomExchange, randomValues } from './random-specs.ts';

describe('halo/transformer', () => {
  after(closeTested);

  for (const place of places) {
    describe(`on ${place}`, () => {
      it('equals NDSL bit for bit in all 60 stored cases', async () => {
        expect(golden.length).to.equal(60);
        for (const each of golden) await checkHaloOn(place, each);
      });

      it('packs and unpacks like a plain walk over the indices in 150 random cases', async () => {
        for (let round = 0; round < 150; round++) {
          const vector = round % 3 === 0;
          const dtype = vector
            ? pick(['float32', 'float64'] as const)
            : pick(Object.keys(dtypes) as DType[]);
          const specs = Array.from({ length: 1 + below(14) }, () => {
            const rotation = below(15) - 7;
            const dims = pick(dimLists);
            const [x, y] = [
              randomExchange(dtype, dims, rotation),
              randomExchange(dtype, pick(dimLists), rotation),
            ];
            return vector ? [x, y] : [x];
          });
          const values = specs.map((components) =>
            components.map(({ specification }) => randomValues(dtype, specification.span)),
          );
          const wanted = packedBy(specs, values);
          // Each array is a view of a part of a larger array.
          const offset = below(3);
          const whole = values.map((of) =>
            of.map((each) => {
              const larger = arrayOf(dtype, each.length + 3);
              (larger as Float32Array).set(each as Float32Array, offset);
              return memoryAt(place, larger, dtype);
            }),
          );
          const quantities = (component: number): HaloQuantity[] =>
            whole.map((of, i) => {
              const { span, shape, strides, dims } = specs[i]![component]!.specification;
              const memory = of[component]!;
              const data =
                memory instanceof Tensor
                  ? memory.view({ shape: [span], offset })
                  : memory.subarray(offset, offset + span);
              return { data, shape, strides, dims };
            });
          const [x, y] = [quantities(0), vector ? quantities(1) : null];
          using transformer = HaloDataTransformer.get(
            deviceAt(place),
            specs.map(([first]) => first!),
            vector ? specs.map(([, second]) => second!) : null,
          );
          expect(transformer.length).to.equal(wanted.length);
          transformer.asyncPack(x, y);
          expect(bits(await valuesAt(transformer.getPackBuffer()))).to.equal(bits(wanted));
          const arriving = randomValues(dtype, wanted.length);
          fill(transformer.getUnpackBuffer(), arriving);
          transformer.asyncUnpack(x, y);
          await transformer.synchronize();
          unpackInto(specs, values, arriving);
          for (const [i, of] of whole.entries()) {
            for (const [component, memory] of of.entries()) {
              const larger = arrayOf(dtype, values[i]![component]!.length + 3);
              (larger as Float32Array).set(values[i]![component] as Float32Array, offset);
              expect(
                bits(await valuesAt(memory)),
                `round ${round}, array ${i}.${component}`,
              ).to.equal(bits(larger));
            }
            close(...of);
          }
        }
      });

      it('packing a rotated vector flips only sign bits, also of zeros, infinities and NaNs', async () => {
        const special = [0, -0, 1.5, -2.5, Number.POSITIVE_INFINITY, Number.NaN, 1e-45, 5e-324];
        for (const dtype of ['float32', 'float64'] as const) {
          const values = new dtypes[dtype].array(special);
          const spec = new HaloExchangeSpec({
            specification: new QuantityHaloSpec({
              nPoints: 0,
              shape: [2, 4],
              origin: [0, 0],
              extent: [2, 4],
              dims: ['i', 'j'],
              dtype,
            }),
            packSlices: [
              [0, 2],
              [0, 4],
            ],
            packClockwiseRotation: 2,
            unpackSlices: [
              [0, 2],
              [0, 4],
            ],
          });
          using transformer = HaloDataTransformer.get(deviceAt(place), [spec], [spec]);
          const [x, y] = [memoryAt(place, values), memoryAt(place, values)];
          transformer.asyncPack([{ data: x }], [{ data: y }]);
          const packed = await valuesAt(transformer.getPackBuffer());
          const turned = new Uint8Array(values.slice().reverse().buffer);
          const bytes = dtypes[dtype].bytes;
          for (let at = bytes - 1; at < turned.length; at += bytes) turned[at]! ^= 0x80;
          expect(bits(packed)).to.equal(bits(turned) + bits(turned));
          close(x, y);
        }
      });

      itLonger('packs and unpacks large arrays completely (test:all: larger ones)', async () => {
        const layers = setting({ short: 20, all: 130, long: 260 });
        const shape = [layers, 70, 70];
        const specification = new QuantityHaloSpec({
          nPoints: 3,
          shape,
          origin: [0, 3, 3],
          extent: [layers, 64, 64],
          dims: ['k', 'j', 'i'],
          dtype: 'float64' as const,
        });
        const slices: HaloRange[] = [
          [0, layers],
          [1, 69],
          [2, 70],
        ];
        const specs = [0, 1, 2, 3].map(
          (turns) =>
            new HaloExchangeSpec({
              specification,
              packSlices: slices,
              packClockwiseRotation: turns,
              unpackSlices: slices,
            }),
        );
        const values = Float64Array.from({ length: specification.span }, (_, i) => i);
        const data = memoryAt(place, values);
        using transformer = HaloDataTransformer.get(deviceAt(place), specs);
        const quantities = specs.map(() => ({ data, shape }));
        transformer.asyncPack(quantities);
        const wanted = packedBy(
          specs.map((each) => [each]),
          specs.map(() => [values]),
        );
        const packed = await valuesAt(transformer.getPackBuffer());
        expect(
          Buffer.compare(
            Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength),
            Buffer.from(wanted.buffer),
          ),
        ).to.equal(0);
        const one = HaloDataTransformer.get(deviceAt(place), [specs[0]!]);
        const arriving = values.slice(0, one.length).map((each) => -each);
        fill(one.getUnpackBuffer(), arriving);
        one.asyncUnpack([quantities[0]!]);
        await one.synchronize();
        unpackInto([[specs[0]!]], [[values]], arriving);
        const after = await valuesAt(data);
        expect(
          Buffer.compare(
            Buffer.from(after.buffer, after.byteOffset, after.byteLength),
            Buffer.from(values.buffer),
          ),
        ).to.equal(0);
        one.finalize();
        close(data);
      });

      it('packs and unpacks nothing for empty slices', async () => {
        const specification = new QuantityHaloSpec({
          nPoints: 0,
          shape: [4, 0],
          origin: [0, 0],
          extent: [4, 0],
          dims: ['i', 'j'],
          dtype: 'int16',
        });
        const spec = new HaloExchangeSpec({
          specification,
          packSlices: [
            [0, 4],
            [0, 0],
          ],
          packClockwiseRotation: 1,
          unpackSlices: [
            [1, 1],
            [0, 0],
          ],
        });
        using transformer = HaloDataTransformer.get(deviceAt(place), [spec]);
        const data = memoryAt(place, new Int16Array(0));
        transformer.asyncPack([{ data }]);
        transformer.asyncUnpack([{ data }]);
        await transformer.synchronize();
        expect(transformer.length).to.equal(0);
        expect((await valuesAt(transformer.getPackBuffer())).length).to.equal(0);
        close(data);
      });
    });
  }

  describe('on cpu, with memory of the caller', () => {
    it('packInto() fills shared memory, and throws for another length, unpackFrom() for another dtype', () => {
      const each = golden[0]!;
      using transformer = goldenTransformer(each, 'cpu') as HaloDataTransformerHost;
      const quantities = repeated(each, decoded(each.before[0]!, each.dtype));
      const shared = new Float32Array(new SharedArrayBuffer(transformer.length * 4));
      transformer.packInto(shared, quantities);
      expect(bits(shared)).to.equal(bits(decoded(each.packBuffer, each.dtype)));
      expect(refusal(() => transformer.packInto(shared.subarray(1), quantities)).message).to.match(
        /takes a \w+Array of \d+ elements \(/,
      );
      expect(
        refusal(() => transformer.unpackFrom(new Float64Array(transformer.length), quantities))
          .message,
      ).to.match(/\(float32\)/);
    });
  });

  describe('on cpu, with overlapping parts', () => {
    it('the last descriptor wins for parts of 360,000 elements', () => {
      const n = 120_000;
      const specification = new QuantityHaloSpec({
        nPoints: 0,
        shape: [n, 3],
        origin: [0, 0],
        extent: [n, 3],
        dims: ['i', 'k'],
        dtype: 'float32' as const,
      });
      const all: HaloRange[] = [
        [0, n],
        [0, 3],
      ];
      const spec = new HaloExchangeSpec({
        specification,
        packSlices: all,
        packClockwiseRotation: 0,
        unpackSlices: all,
      });
      using transformer = HaloDataTransformer.get('cpu', [spec, spec, spec]);
      const buffer = transformer.getUnpackBuffer() as Float32Array;
      for (const which of [0, 1, 2]) buffer.fill(which, which * 3 * n, (which + 1) * 3 * n);
      const data = new Float32Array(3 * n);
      for (let round = 0; round < 30; round++) {
        data.fill(9);
        transformer.asyncUnpack([{ data }, { data }, { data }]);
        expect(data.every((value) => value === 2)).to.equal(true);
      }
    });
  });
});
