/**
 * Tests parts that are unpacked into the same memory. The part of the later descriptor must remain,
 * on cpu, on devices and in captures.
 */
import { expect } from 'chai';
import { arrayOf, type DType, dtypes, type TypedArray } from '../../src/base/dtype.ts';
import { captureGraph } from '../../src/device/graph/shared.ts';
import {
  HaloDataTransformer,
  HaloExchangeSpec,
  type HaloQuantity,
  type HaloRange,
  QuantityHaloSpec,
} from '../../src/entries/halo.ts';
import type { Device } from '../../src/index.ts';
import { Tensor } from '../../src/index.ts';
import { bits } from '../golden/halo.ts';
import { refusal } from '../rig/refusal.ts';
import { itLonger, setting } from '../rig/setting.ts';
import { unpackInto } from './cases.ts';
import {
  close,
  closeTested,
  deviceAt,
  fill,
  memoryAt,
  places,
  tested,
  valuesAt,
} from './places.ts';
import { below, dimLists, pick, randomExchange, randomValues } from './random-specs.ts';

/** Describes `count` full rows from row `first` on, of an array of 12 × 4 elements. */
function rowsFrom(first: number, count: number): HaloExchangeSpec {
  const specification = new QuantityHaloSpec({
    nPoints: 0,
    shape: [12, 4],
    origin: [0, 0],
    extent: [12, 4],
    dims: ['k', 'i'],
    dtype: 'float32' as const,
  });
  const slices: HaloRange[] = [
    [first, first + count],
    [0, 4],
  ];
  return new HaloExchangeSpec({
    specification,
    packSlices: slices,
    packClockwiseRotation: 0,
    unpackSlices: slices,
  });
}

describe('halo/transformer with overlapping parts', () => {
  after(closeTested);

  for (const place of places) {
    describe(`on ${place}`, () => {
      const rounds = setting({ short: 150, all: 300, long: 1000 });
      itLonger(
        `unpacks like one descriptor after another in ${rounds} random cases, captured and not`,
        async () => {
          let shared = 0;
          for (let round = 0; round < rounds; round++) {
            const dtype = pick(Object.keys(dtypes) as DType[]);
            const dims = pick(dimLists);
            // Parts overlap most often if several arrays have one layout and share one memory.
            const one = randomExchange(dtype, dims, 0);
            const specs = Array.from({ length: 2 + below(12) }, () =>
              below(2) === 0 ? one : randomExchange(dtype, pick([dims, pick(dimLists)]), 0),
            );
            const longest = Math.max(...specs.map(({ specification }) => specification.span)) + 4;
            const many = 1 + below(3);
            const values = Array.from({ length: many }, () => randomValues(dtype, longest));
            const memories = values.map((each) => memoryAt(place, each, dtype));
            const lies = specs.map(() => ({
              which: below(many),
              offset: pick([0, 0, 0, 1, 2, 3]),
            }));
            shared += Number(new Set(lies.map(({ which }) => which)).size < specs.length);
            const part = <M extends TypedArray | Tensor>(of: readonly M[], i: number): M => {
              const { which, offset } = lies[i]!;
              const { span } = specs[i]!.specification;
              const memory = of[which]!;
              return (
                memory instanceof Tensor
                  ? memory.view({ shape: [span], offset })
                  : memory.subarray(offset, offset + span)
              ) as M;
            };
            const quantities = specs.map(
              ({ specification: { shape, strides } }, i): HaloQuantity => {
                return { data: part(memories, i), shape, strides };
              },
            );
            using transformer = HaloDataTransformer.get(deviceAt(place), specs);
            const arriving = randomValues(dtype, transformer.length);
            fill(transformer.getUnpackBuffer(), arriving);
            const device = deviceAt(place);
            if (device !== 'cpu' && round % 2 === 0) {
              const { exec } = captureGraph(device, { what: 'capturing', pool: null }, () =>
                transformer.asyncUnpack(quantities),
              );
              device.currentStream.replay(exec);
              exec.close();
              await device.currentStream.synchronize();
            } else {
              transformer.asyncUnpack(quantities);
              await transformer.synchronize();
            }
            unpackInto(
              specs.map((each) => [each]),
              specs.map((_, i) => [part(values, i)]),
              arriving,
            );
            for (const [m, memory] of memories.entries())
              expect(bits(await valuesAt(memory)), `round ${round}, memory ${m}`).to.equal(
                bits(values[m]!),
              );
            close(...memories);
          }
          expect(shared).to.be.above(rounds / 2);
        },
      );

      it('HaloDataTransformer.get() throws if a part has two elements at one address', () => {
        const specification = new QuantityHaloSpec({
          nPoints: 0,
          shape: [3, 4],
          strides: [2, 1],
          origin: [0, 0],
          extent: [3, 4],
          dims: ['k', 'i'],
          dtype: 'int32' as const,
        });
        const spec = (columns: HaloRange) =>
          new HaloExchangeSpec({
            specification,
            packSlices: [[0, 3], columns],
            packClockwiseRotation: 0,
            unpackSlices: [[0, 3], columns],
          });
        const { code, message } = refusal(() =>
          HaloDataTransformer.get(deviceAt(place), [spec([0, 2]), spec([0, 3])]),
        );
        expect([code, message]).to.deep.equal([
          'ERR_HOTSLOT_RANGE',
          'x[1]: strides [2,1] of [k,i] put two elements of unpackSlices in one place',
        ]);
        HaloDataTransformer.get(deviceAt(place), [spec([0, 2])]).finalize();
      });

      it('asyncPack() and asyncUnpack() throw if a quantity shares memory with the buffer', () => {
        using transformer = HaloDataTransformer.get(deviceAt(place), [rowsFrom(0, 12)]);
        for (const [act, data] of [
          ['asyncPack', transformer.getPackBuffer()],
          ['asyncUnpack', transformer.getUnpackBuffer()],
        ] as const)
          expect(
            refusal(() => transformer[act]([{ data, shape: [12, 4], strides: [4, 1] }])).message,
          ).to.match(/share(s)? memory/);
      });
    });
  }

  describe('on a device', () => {
    /** Returns the number of graph nodes that unpacking these arrays makes. */
    function launches(
      device: Device,
      specs: readonly HaloExchangeSpec[],
      data: readonly Tensor[],
    ): number {
      using transformer = HaloDataTransformer.get(device, specs);
      const { exec, nodeCount } = captureGraph(device, { what: 'capturing', pool: null }, () =>
        transformer.asyncUnpack(
          specs.map((_, i) => ({ data: data[i]!, shape: [12, 4], strides: [4, 1] })),
        ),
      );
      exec.close();
      return nodeCount;
    }

    it('asyncUnpack() makes one launch, and further launches only for parts that share an element', () => {
      const device = tested();
      const arrays = Array.from({ length: 10 }, () => device.allocate({ shape: [64] }));
      const [a, b] = arrays as [Tensor, Tensor];
      const ten = arrays.map(() => rowsFrom(0, 6));
      expect(launches(device, ten, arrays), 'ten memories').to.equal(1);
      expect(launches(device, ten, new Array<Tensor>(10).fill(a)), 'one memory').to.equal(10);
      const two = [rowsFrom(0, 6), rowsFrom(6, 6)];
      expect(launches(device, two, [a, a]), 'separate parts of one memory').to.equal(1);
      const down = a.view({ shape: [60], offset: 4 });
      expect(
        launches(device, two, [a, down]),
        'one memory, the second a row further: separate',
      ).to.equal(1);
      expect(
        launches(device, two, [down, a]),
        'one memory, the first a row further: overlapping',
      ).to.equal(2);
      expect(
        launches(device, [...two, rowsFrom(5, 2)], [a, a, a]),
        'the third overlaps both',
      ).to.equal(2);
      expect(
        launches(device, [...two, rowsFrom(5, 2)], [a, a, b]),
        'the third is in another memory',
      ).to.equal(1);
      expect(
        launches(device, [two[0]!, rowsFrom(3, 1), two[1]!, rowsFrom(7, 1)], [a, a, a, a]),
      ).to.equal(3);
      expect(
        launches(device, [two[0]!, rowsFrom(3, 0), rowsFrom(0, 1)], [a, a, a]),
        'an empty part',
      ).to.equal(2);
      close(...arrays);
    });

    it('asyncUnpack() handles 3,000 descriptors, and the last one of each row wins', async () => {
      const device = tested();
      const count = 3000;
      const specs = Array.from({ length: count }, (_, i) => rowsFrom(i % 12, 1));
      using transformer = HaloDataTransformer.get(device, specs);
      using data = device.allocate({ shape: [48] });
      const arriving = arrayOf('float32', 4 * count).map((_, i) => i);
      (transformer.getUnpackBuffer() as Tensor).write(arriving as Float32Array<ArrayBuffer>);
      transformer.asyncUnpack(specs.map(() => ({ data, shape: [12, 4], strides: [4, 1] })));
      await transformer.synchronize();
      expect(await data.toArray()).to.deep.equal(arriving.slice(-48));
    });
  });
});
