/** Packing and unpacking: the source's own cases bit for bit, random ones against a plain reference, refusals, caches. */
import { expect } from 'chai';
import { arrayOf, type DType, dtypes, type TypedArray } from '../../../src/dtype.ts';
import { captureGraph } from '../../../src/graph/shared.ts';
import {
  HaloDataTransformer,
  type HaloDataTransformerHost,
  HaloExchangeSpec,
  type HaloQuantity,
  type HaloRange,
  openDevice,
  QuantityHaloSpec,
  Tensor,
} from '../../../src/index.ts';
import { uniformGenerator } from '../../../src/learner/random.ts';
import { Latch, openHandles, refusal, rejection, until, valuesOf } from '../../device/rig.ts';
import { TESTED } from '../../tested-device.ts';
import {
  bits,
  close,
  closeTested,
  decoded,
  deviceAt,
  fill,
  golden,
  goldenTransformer,
  memoryAt,
  packedBy,
  places,
  repeated,
  tested,
  unpackInto,
  valuesAt,
} from './cases.ts';

const random = uniformGenerator(54);
const below = (n: number) => Math.floor(random() * n);
const pick = <T>(from: readonly T[]): T => from[below(from.length)] as T;

/** Whole numbers in any dtype, other ones in floats too. */
function randomValues(dtype: DType, n: number): TypedArray {
  const values = arrayOf(dtype, n);
  for (let i = 0; i < n; i++) {
    const value = below(1 << 30) - (dtype.startsWith('u') ? 0 : 1 << 29);
    if (values instanceof BigInt64Array || values instanceof BigUint64Array) values[i] = BigInt(value);
    else values[i] = value;
  }
  return values;
}

const dimLists = [
  ['i', 'j', 'k'],
  ['k', 'j', 'i'],
  ['j', 'i'],
  ['i', 'k', 'j'],
  ['i', 'k'],
  ['k', 'j'],
  ['k'],
  ['tile', 'k', 'j_interface', 'i'],
  ['i_interface', 'j', 'k', 'tracer', 'member'],
];

function randomSpec(dtype: DType, dims: readonly string[]): QuantityHaloSpec {
  const shape = dims.map(() => 1 + below(6));
  const order = pick([dims.map((_, d) => d), dims.map((_, d) => dims.length - 1 - d)]);
  const strides = dims.map(() => 0);
  // Rows with room between them now and then: parts of larger arrays.
  let step = pick([1, 1, 2]);
  for (const d of [...order].reverse()) {
    strides[d] = step;
    step *= shape[d]! + pick([0, 0, 1]);
  }
  return new QuantityHaloSpec({ nPoints: 1, shape, strides, origin: dims.map(() => 0), extent: shape, dims, dtype });
}
function randomSlices({ shape }: QuantityHaloSpec): HaloRange[] {
  return shape.map((n) => {
    const start = below(n);
    const stop = start + 1 + below(n - start);
    // Negative ends count from the end.
    return pick([
      [start, stop],
      [start - n, stop],
      [start, stop === n ? n : stop - n],
    ]) as HaloRange;
  });
}
function randomExchange(dtype: DType, dims: readonly string[], rotation: number): HaloExchangeSpec {
  const specification = randomSpec(dtype, dims);
  const slices = randomSlices(specification);
  return new HaloExchangeSpec({
    specification,
    packSlices: slices,
    packClockwiseRotation: rotation,
    unpackSlices: slices,
  });
}

describe('operators/halo/transformer', () => {
  after(closeTested);

  for (const place of places) {
    describe(`on ${place}`, () => {
      it('equals the source bit for bit in every case it computed', async () => {
        expect(golden.length).to.equal(60);
        for (const each of golden) {
          const before = each.before.map((text) => decoded(text, each.dtype));
          const data = before.map((values) => memoryAt(place, values));
          using transformer = goldenTransformer(each, place);
          const [x, y = null] = data.map((of) => repeated(each, of)) as [HaloQuantity[], HaloQuantity[]?];
          transformer.asyncPack(x, y);
          const packed = await valuesAt(transformer.getPackBuffer());
          expect(bits(packed), `${each.name}: packed`).to.equal(bits(decoded(each.packBuffer, each.dtype)));
          fill(transformer.getUnpackBuffer(), decoded(each.unpackBuffer, each.dtype));
          transformer.asyncUnpack(x, y);
          await transformer.synchronize();
          for (const [i, of] of data.entries())
            expect(bits(await valuesAt(of)), `${each.name}: component ${i} after`).to.equal(
              bits(decoded(each.after[i]!, each.dtype)),
            );
          close(...data);
        }
      });

      it('equals a plain walk over the indices: every dtype, mixed shapes, views, more arrays than a launch takes', async () => {
        for (let round = 0; round < 150; round++) {
          const vector = round % 3 === 0;
          const dtype = vector ? pick(['float32', 'float64'] as const) : pick(Object.keys(dtypes) as DType[]);
          const specs = Array.from({ length: 1 + below(14) }, () => {
            const rotation = below(15) - 7;
            const dims = pick(dimLists);
            const [x, y] = [randomExchange(dtype, dims, rotation), randomExchange(dtype, pick(dimLists), rotation)];
            return vector ? [x, y] : [x];
          });
          const values = specs.map((components) =>
            components.map(({ specification }) => randomValues(dtype, specification.span)),
          );
          const wanted = packedBy(specs, values);
          // Each array is a part of a larger one that it does not own.
          const offset = below(3);
          const whole = values.map((of) =>
            of.map((each) => {
              const larger = arrayOf(dtype, each.length + 3);
              (larger as Float32Array).set(each as Float32Array, offset);
              return memoryAt(place, larger);
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
              expect(bits(await valuesAt(memory)), `round ${round}, array ${i}.${component}`).to.equal(bits(larger));
            }
            close(...of);
          }
        }
      });

      it('turns signs as bits: zeros, infinities and NaNs too', async () => {
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

      it('moves large arrays whole', async () => {
        const shape = [260, 70, 70];
        const specification = new QuantityHaloSpec({
          ...{
            nPoints: 3,
            shape,
            origin: [0, 3, 3],
            extent: [260, 64, 64],
            dims: ['k', 'j', 'i'],
            dtype: 'float64' as const,
          },
        });
        const slices: HaloRange[] = [
          [0, 260],
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
          Buffer.compare(Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength), Buffer.from(wanted.buffer)),
        ).to.equal(0);
        const one = HaloDataTransformer.get(deviceAt(place), [specs[0]!]);
        const arriving = values.slice(0, one.length).map((each) => -each);
        fill(one.getUnpackBuffer(), arriving);
        one.asyncUnpack([quantities[0]!]);
        await one.synchronize();
        unpackInto([[specs[0]!]], [[values]], arriving);
        const after = await valuesAt(data);
        expect(
          Buffer.compare(Buffer.from(after.buffer, after.byteOffset, after.byteLength), Buffer.from(values.buffer)),
        ).to.equal(0);
        one.finalize();
        close(data);
      });

      it('moves nothing where nothing leaves', async () => {
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

      it('gives its buffers to the next one of the same layout, which allocates nothing', async () => {
        const each = golden.find(({ name }) => name.startsWith('vector/tile'))!;
        const first = goldenTransformer(each, place);
        first.getPackBuffer();
        first.getUnpackBuffer();
        const before = openHandles();
        const least = 2 * first.length * dtypes[each.dtype].bytes;
        await first.synchronize();
        const { bytes } = first.stats().buffers;
        first.finalize();
        // A GPU's driver is asked whether it has let go when memory is asked for.
        await until('the buffers are back', () => {
          if (place !== 'cpu')
            tested()
              .allocate({ shape: [1 << 20], zeroed: false })
              .close();
          return first.stats().buffers.bytes >= bytes + least;
        });
        const { buffers, streams, descriptors } = first.stats();
        const second = goldenTransformer(each, place);
        second.getPackBuffer();
        second.getUnpackBuffer();
        const after = second.stats();
        expect(after.buffers.misses - buffers.misses, 'buffers made').to.equal(0);
        expect(after.buffers.hits - buffers.hits, 'buffers used again').to.equal(2);
        expect(after.buffers.bytes).to.be.below(buffers.bytes);
        if (place !== 'cpu') {
          expect(openHandles()).to.deep.equal(before);
          expect(after.streams.misses).to.equal(streams.misses);
          expect(after.streams.hits - streams.hits).to.equal(1);
          expect(after.descriptors.misses).to.equal(descriptors.misses);
          expect(after.descriptors.hits - descriptors.hits).to.equal(2);
          expect(after.descriptors.bytes).to.equal(descriptors.bytes);
          expect(descriptors.bytes).to.be.above(0);
        }
        second.finalize();
      });

      it('says no after finalize, twice is fine', async () => {
        const each = golden.find(({ kind }) => kind === 'scalar')!;
        const data = memoryAt(place, decoded(each.before[0]!, each.dtype));
        const transformer = goldenTransformer(each, place);
        expect(transformer.ready()).to.equal(true);
        transformer.finalize();
        transformer.finalize();
        expect(transformer.ready()).to.equal(false);
        const quantities = repeated(each, data);
        for (const act of [
          () => transformer.asyncPack(quantities),
          () => transformer.asyncUnpack(quantities),
          () => transformer.getPackBuffer(),
          () => transformer.getUnpackBuffer(),
          () => transformer.synchronizeSync(),
        ])
          expect(refusal(act).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
        expect((await rejection(transformer.synchronize())).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
        close(data);
      });

      it('refuses quantities unlike their specification, and nothing is packed', async () => {
        const specification = new QuantityHaloSpec({
          nPoints: 1,
          shape: [4, 5],
          origin: [1, 1],
          extent: [2, 3],
          dims: ['i', 'j'],
          dtype: 'float32',
        });
        const slices: HaloRange[] = [
          [0, 1],
          [0, 5],
        ];
        const spec = new HaloExchangeSpec({
          specification,
          packSlices: slices,
          packClockwiseRotation: 0,
          unpackSlices: slices,
        });
        using scalar = HaloDataTransformer.get(deviceAt(place), [spec, spec]);
        using vector = HaloDataTransformer.get(deviceAt(place), [spec], [spec]);
        const data = memoryAt(place, new Float32Array(20).fill(7));
        const doubles = memoryAt(place, new Float64Array(20));
        const few = memoryAt(place, new Float32Array(19));
        fill(scalar.getPackBuffer(), new Float32Array(10).fill(3));
        await scalar.synchronize();
        const good = { data, shape: [4, 5], strides: [5, 1], dims: ['i', 'j'] };
        const said = (x: unknown, y?: unknown, of = scalar) =>
          refusal(() => of.asyncPack(x as HaloQuantity[], y as HaloQuantity[])).message;
        expect(said([good])).to.match(/x has 1 quantities, the transformer 2 descriptors/);
        expect(said([])).to.match(/x has 0 quantities/);
        expect(said([good, good], [good, good])).to.match(/scalar transformer takes no y/);
        expect(said([good], undefined, vector)).to.match(/needs y too/);
        expect(said([good], [], vector)).to.match(/y has 0 quantities, the transformer 1/);
        expect(said([good], [{ ...good, shape: [5, 4] }], vector)).to.match(/y\[0\]: its shape is \[5,4\]/);
        expect(said(undefined)).to.match(/array of quantities/);
        expect(said({ length: 2 })).to.match(/array of quantities as x, got an object/);
        expect(said([good, null])).to.match(/x\[1\] is \{ data, shape\?/);
        expect(said([good, { ...good, data: doubles }])).to.match(/x\[1\]: data .*float32/);
        expect(said([good, { ...good, data: few }])).to.match(/19 elements.* needs 20/);
        expect(said([good, { ...good, shape: [4, 5, 1] }])).to.match(
          /x\[1\]: its shape is \[4,5,1\], its specification's \[4,5\]/,
        );
        expect(said([good, { ...good, strides: [1, 4] }])).to.match(/strides is \[1,4\].*\[5,1\]/);
        expect(said([good, { ...good, dims: ['j', 'i'] }])).to.match(/dims is \[j,i\]/);
        expect(said([good, { ...good, data: [1, 2, 3] }])).to.match(/got an array of 3/);
        expect(said([good, data])).to.match(/x\[1\] is \{ data, .* got a (Float32Array of 20|Tensor)/);
        if (place === 'cpu') {
          expect(said([good, { ...good, data: tested().allocate({ shape: [20] }) }])).to.match(
            /Float32Array, got a Tensor/,
          );
        } else {
          expect(said([good, { ...good, data: new Float32Array(20) }])).to.match(/Tensor, got a Float32Array/);
          const square = (data as Tensor).view({ shape: [5, 4] });
          expect(said([good, { data: square }])).to.match(/data's shape is \[5,4\]/);
          // What lies otherwise than the specification says is seen whatever is said about it.
          using wide = tested().allocate({ shape: [4, 10] });
          const apart = wide.view({ shape: [4, 5], strides: [10, 1] });
          for (const over of [{}, { shape: [4, 5] }, { shape: [4, 5], strides: [5, 1] }])
            expect(said([good, { data: apart, ...over }])).to.match(/data's strides is \[10,1\].*\[5,1\]/);
          const every = wide.view({ shape: [20], strides: [2] });
          expect(said([good, { data: every, shape: [4, 5], strides: [5, 1] }])).to.match(/data's shape is \[20\]/);
          const gone = tested().allocate({ shape: [20] });
          gone.close();
          expect(said([good, { ...good, data: gone }])).to.match(/x\[1\]: its data is closed/);
        }
        expect([...(await valuesAt(scalar.getPackBuffer()))]).to.deep.equal(new Array(10).fill(3));
        // What is not said is taken from the specification.
        scalar.asyncPack([{ data }, { data, dims: ['i', 'j'] }]);
        expect([...(await valuesAt(scalar.getPackBuffer()))]).to.deep.equal(new Array(10).fill(7));
        close(data, doubles, few);
      });
    });
  }

  describe('specifications', () => {
    const good = {
      nPoints: 1,
      shape: [6, 5],
      origin: [1, 1],
      extent: [4, 3],
      dims: ['i', 'j'],
      dtype: 'float32' as const,
    };
    const spec = new QuantityHaloSpec(good);
    const full: HaloRange[] = [
      [0, 6],
      [0, 5],
    ];
    const exchange = (over: object = {}) =>
      new HaloExchangeSpec({
        specification: spec,
        packSlices: full,
        packClockwiseRotation: 0,
        unpackSlices: full,
        ...over,
      });

    it('say what they hold', () => {
      expect(spec.strides).to.deep.equal([5, 1]);
      expect(spec.itemsize).to.equal(4);
      const taken = exchange({
        packSlices: [
          [-3, -1],
          [0, -2],
        ],
        packClockwiseRotation: -5,
        unpackSlices: [
          [0, 2],
          [1, 4],
        ],
      });
      expect(taken.packSlices).to.deep.equal([
        [3, 5],
        [0, 3],
      ]);
      expect(exchange({ packClockwiseRotation: 2 ** 60 + 2 ** 10 }).packClockwiseRotation).to.equal(2 ** 60 + 2 ** 10);
      expect(exchange({ packClockwiseRotation: -0 }).packClockwiseRotation).to.deep.equal(0);
      expect([taken.packSize, taken.unpackSize]).to.deep.equal([6, 6]);
    });

    it('refuse what does not fit together, with the dimension and the values', () => {
      const quantity = (over: object) => refusal(() => new QuantityHaloSpec({ ...good, ...over })).message;
      expect(quantity({ itemsize: 8 })).to.match(/itemsize of float32 is 4 bytes, got 8/);
      expect(quantity({ dtype: 'float16' })).to.match(/unknown dtype float16/);
      expect(quantity({ nPoints: -1 })).to.match(/nPoints.*-1/);
      expect(quantity({ shape: [6] })).to.match(/shape has one number per dimension of \[i,j\], got \[6\]/);
      expect(quantity({ shape: [6, 2.5] })).to.match(/shape of 'j'.*2\.5/);
      expect(quantity({ strides: [5, -1] })).to.match(/strides of 'j'.*-1/);
      expect(quantity({ strides: [5, 0] })).to.match(/'j': a stride of 0 puts 5 elements in one place/);
      expect(quantity({ origin: [3, 1] })).to.match(
        /'i': a compute domain of 4 from 3 on ends beyond a dimension of 6/,
      );
      expect(quantity({ dims: ['i', 'i'] })).to.match(/'i' twice/);
      expect(quantity({ dims: ['i', 'i_interface'] })).to.match(/'i' and 'i_interface'/);
      expect(quantity({ dims: 'ij' })).to.match(/array of names/);
      expect(quantity({ halo: 3 })).to.match(/unknown option 'halo'/);
      const wrong = (over: object) => refusal(() => exchange(over)).message;
      // biome-ignore lint/suspicious/noSparseArray: what somebody may pass
      expect(wrong({ packSlices: [[0, 6], ,] })).to.match(/'j' is \[start, stop\].* got undefined/);
      // biome-ignore lint/suspicious/noSparseArray: likewise
      expect(quantity({ dims: ['i', ,] })).to.match(/array of names/);
      expect(wrong({ specification: {} })).to.match(/QuantityHaloSpec, got an object/);
      expect(wrong({ packClockwiseRotation: 0.5 })).to.match(/quarter turns, got 0\.5/);
      expect(wrong({ packSlices: [[0, 6]] })).to.match(/one \[start, stop\] per dimension of \[i,j\], got 1/);
      expect(
        wrong({
          packSlices: [
            [0, 7],
            [0, 5],
          ],
        }),
      ).to.match(/packSlices of 'i': \[0,7\] is no range of a dimension of 6/);
      expect(
        wrong({
          unpackSlices: [
            [0, 6],
            [-6, 5],
          ],
        }),
      ).to.match(/unpackSlices of 'j': \[-6,5\].* of 5/);
      expect(
        wrong({
          unpackSlices: [
            [0, 6],
            [4, 3],
          ],
        }),
      ).to.match(/\[4,3\]/);
      expect(
        wrong({
          packSlices: [
            [0, 6],
            [0, '5'],
          ],
        }),
      ).to.match(/whole numbers, got \[0,5\]/);
    });

    it('are refused as a list that is empty, uneven or mixed', () => {
      const said = (x: unknown, y?: unknown) =>
        refusal(() => HaloDataTransformer.get('cpu', x as HaloExchangeSpec[], y as HaloExchangeSpec[])).message;
      const doubles = exchange({ specification: new QuantityHaloSpec({ ...good, dtype: 'float64' }) });
      const whole = exchange({ specification: new QuantityHaloSpec({ ...good, dtype: 'int32' }) });
      expect(said([])).to.match(/at least one HaloExchangeSpec/);
      expect(said(exchange())).to.match(/x is an array of HaloExchangeSpecs/);
      expect(said([exchange(), undefined])).to.match(/x\[1\] must be a HaloExchangeSpec, got undefined/);
      expect(said([exchange()], [])).to.match(/1 of x and 0 of y/);
      expect(said([exchange(), doubles])).to.match(/one dtype; got float32 and float64/);
      expect(said([exchange()], [doubles])).to.match(/float32 and float64/);
      expect(said([whole], [whole])).to.match(/float32 or float64.* got int32/);
      expect(said([exchange({ packClockwiseRotation: 1 })], [exchange()])).to.match(/turn together.* 1 and 0/);
      expect(
        said([
          exchange({
            unpackSlices: [
              [0, 5],
              [0, 5],
            ],
          }),
        ]),
      ).to.match(/30 elements leave and 25 arrive/);
      const closed = openDevice(TESTED);
      closed.close();
      expect(refusal(() => HaloDataTransformer.get(closed, [exchange()])).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
      expect(refusal(() => HaloDataTransformer.get('gpu' as 'cpu', [exchange()])).message).to.match(
        /opened device, got 'gpu'/,
      );
    });
  });

  describe('on cpu, into memory of the caller', () => {
    it('packs into shared memory, and refuses another length or dtype', () => {
      const each = golden[0]!;
      using transformer = goldenTransformer(each, 'cpu') as HaloDataTransformerHost;
      const quantities = repeated(each, decoded(each.before[0]!, each.dtype));
      const shared = new Float32Array(new SharedArrayBuffer(transformer.length * 4));
      transformer.packInto(shared, quantities);
      expect(bits(shared)).to.equal(bits(decoded(each.packBuffer, each.dtype)));
      expect(refusal(() => transformer.packInto(shared.subarray(1), quantities)).message).to.match(/needs a buffer of/);
      expect(refusal(() => transformer.unpackFrom(new Float64Array(transformer.length), quantities)).message).to.match(
        /of float32/,
      );
    });
  });

  describe('on cpu, where parts overlap', () => {
    it('the later one stays, however large they are', () => {
      const n = 120_000;
      const specification = new QuantityHaloSpec({
        ...{ nPoints: 0, shape: [n, 3], origin: [0, 0], extent: [n, 3], dims: ['i', 'k'], dtype: 'float32' as const },
      });
      const all: HaloRange[] = [
        [0, n],
        [0, 3],
      ];
      const spec = new HaloExchangeSpec({
        ...{ specification, packSlices: all, packClockwiseRotation: 0, unpackSlices: all },
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

  describe(`streams of ${TESTED}`, () => {
    const specification = new QuantityHaloSpec({
      nPoints: 1,
      shape: [64, 64],
      origin: [1, 1],
      extent: [62, 62],
      dims: ['j', 'i'],
      dtype: 'float32',
    });
    const slices: HaloRange[] = [
      [0, 64],
      [1, 3],
    ];
    const spec = new HaloExchangeSpec({
      specification,
      packSlices: slices,
      packClockwiseRotation: 1,
      unpackSlices: slices,
    });

    /** A round on another stream: whoever may run has run. */
    const turn = async () => {
      using stream = tested().createStream();
      using word = tested().allocate({ shape: [1] });
      for (let i = 0; i < 3; i++) {
        stream.fill(word, i);
        await stream.synchronize();
      }
    };

    it('packs after what the current stream has, and who asks for the buffer comes after that', async () => {
      const device = tested();
      using transformer = HaloDataTransformer.get(device, [spec]);
      using data = device.allocate({ shape: [64, 64] });
      using out = device.allocate({ shape: [transformer.length] });
      using first = device.createStream();
      using second = device.createStream();
      await device.currentStream.synchronize();
      using latch = new Latch(device).hold(first);
      first.fill(data, 1);
      device.withStream(first, () => transformer.asyncPack([{ data }]));
      device.withStream(second, () => second.copy(out, transformer.getPackBuffer() as Tensor));
      const packed = transformer.synchronize();
      await until('the latch is reached', () => latch.reached);
      await turn();
      expect(second.query(), 'copied before it was packed').to.equal(false);
      latch.open();
      await second.synchronize();
      expect(new Set(await valuesOf(out))).to.deep.equal(new Set([1]));
      await packed;
    });

    it('unpacks after what the current stream has put into the buffer', async () => {
      const device = tested();
      using transformer = HaloDataTransformer.get(device, [spec]);
      using data = device.allocate({ shape: [64, 64] });
      using first = device.createStream();
      await device.currentStream.synchronize();
      using latch = new Latch(device).hold(first);
      device.withStream(first, () => {
        first.fill(transformer.getUnpackBuffer() as Tensor, 5);
        transformer.asyncUnpack([{ data }]);
      });
      await until('the latch is reached', () => latch.reached);
      await turn();
      latch.open();
      await transformer.synchronize();
      const values = await data.toArray();
      expect([values[0], values[1], values[2], values[3]]).to.deep.equal([0, 5, 5, 0]);
    });

    it('is captured in a graph and replayed, pack and unpack', async () => {
      const device = tested();
      using transformer = HaloDataTransformer.get(device, [spec]);
      using data = device.allocate({ shape: [64, 64] });
      const quantities = [{ data, shape: [64, 64] }];
      const { exec, nodeCount } = captureGraph(device, { what: 'capturing a halo', pool: null }, (stream) => {
        transformer.asyncPack(quantities);
        stream.copy(transformer.getUnpackBuffer() as Tensor, transformer.getPackBuffer() as Tensor);
        transformer.asyncUnpack(quantities);
      });
      expect(nodeCount).to.equal(3);
      let wanted = Float32Array.from({ length: 64 * 64 }, (_, i) => i);
      data.write(wanted);
      for (let replay = 0; replay < 4; replay++) {
        const packed = packedBy([[spec]], [[wanted]]);
        wanted = wanted.slice();
        unpackInto([[spec]], [[wanted]], packed);
        device.currentStream.replay(exec);
        expect(bits(await data.toArray()), `replay ${replay}`).to.equal(bits(wanted));
      }
      exec.close();
    });

    it('is one launch for up to ten arrays, however many edges', () => {
      const device = tested();
      using data = device.allocate({ shape: [64, 64] });
      for (const [edges, launches] of [
        [8, 1],
        [10, 1],
        [11, 2],
      ] as const) {
        const specs = new Array<HaloExchangeSpec>(edges).fill(spec);
        using transformer = HaloDataTransformer.get(device, specs);
        const quantities = specs.map(() => ({ data }));
        for (const way of ['asyncPack', 'asyncUnpack'] as const) {
          const { exec, nodeCount } = captureGraph(device, { what: 'capturing', pool: null }, () =>
            transformer[way](quantities),
          );
          expect(nodeCount, `${way} of ${edges} edges`).to.equal(launches);
          exec.close();
        }
      }
    });

    it('is refused inside a capture while no stream waits for what it was given before', async () => {
      const device = tested();
      using transformer = HaloDataTransformer.get(device, [spec]);
      using data = device.allocate({ shape: [64, 64] });
      transformer.asyncPack([{ data }]);
      const captured = (fn: () => void) => captureGraph(device, { what: 'capturing', pool: null }, fn).exec.close();
      for (const act of [() => transformer.getPackBuffer(), () => transformer.asyncUnpack([{ data }])])
        expect(refusal(() => captured(act)).message).to.match(/no stream waits for .* call join\(\)/);
      expect(refusal(() => captured(() => transformer.synchronizeSync())).code).to.match(/STATE_(CAPTURE|MAIN_THREAD)/);
      transformer.join();
      captured(() => transformer.asyncUnpack([{ data }]));
      transformer.asyncUnpack([{ data }]);
      await transformer.synchronize();
      captured(() => transformer.asyncPack([{ data }]));
    });

    it('keeps no more streams than a few, whatever their last work is', async () => {
      const device = tested();
      using data = device.allocate({ shape: [64, 64] });
      using held = device.createStream();
      using latch = new Latch(device).hold(held);
      const before = openHandles().stream as number;
      device.withStream(held, () => {
        for (let i = 0; i < 60; i++) {
          using transformer = HaloDataTransformer.get(device, [spec]);
          transformer.asyncPack([{ data }]);
        }
      });
      expect((openHandles().stream as number) - before).to.be.at.most(16);
      latch.open();
      await held.synchronize();
    });

    it('cannot be made inside a capture where it is not there yet, and the capture goes on', async () => {
      const device = tested();
      using data = device.allocate({ shape: [64, 64] });
      const { exec } = captureGraph(device, { what: 'capturing', pool: null }, (stream) => {
        expect(refusal(() => HaloDataTransformer.get(device, [spec])).code).to.equal('ERR_HOTSLOT_STATE_CAPTURE');
        stream.fill(data, 4);
      });
      device.currentStream.replay(exec);
      expect((await data.toArray())[5]).to.equal(4);
      exec.close();
    });

    it('leaves no handle behind', async () => {
      const device = tested();
      HaloDataTransformer.get(device, [spec]).finalize();
      const before = openHandles();
      for (let i = 0; i < 5; i++) {
        using transformer = HaloDataTransformer.get(device, [spec]);
        using data = device.allocate({ shape: [64, 64] });
        transformer.asyncPack([{ data }]);
      }
      expect(openHandles()).to.deep.equal(before);
    });
  });
});
