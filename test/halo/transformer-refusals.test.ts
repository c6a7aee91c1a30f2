/**
 * Tests which options and quantities a transformer and its specifications reject. The errors
 * contain the values.
 */
import { expect } from 'chai';
import {
  HaloDataTransformer,
  HaloExchangeSpec,
  type HaloQuantity,
  type HaloRange,
  QuantityHaloSpec,
} from '../../src/entries/halo.ts';
import { openDevice, type Tensor } from '../../src/index.ts';
import { decoded, goldenTransformer, repeated } from '../golden/halo.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';
import { golden } from './cases.ts';
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

describe('halo/transformer', () => {
  after(closeTested);

  for (const place of places) {
    describe(`on ${place}`, () => {
      it('calls throw ERR_HOTSLOT_STATE_CLOSED after finalize(), which is idempotent', async () => {
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
        expect((await rejection(transformer.synchronize())).code).to.equal(
          'ERR_HOTSLOT_STATE_CLOSED',
        );
        close(data);
      });

      it('asyncPack() throws for quantities that differ from their specification, and packs nothing', async () => {
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
        expect(said([good], [{ ...good, shape: [5, 4] }], vector)).to.match(
          /y\[0\]: its shape is \[5,4\]/,
        );
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
        expect(said([good, data])).to.match(
          /x\[1\] is \{ data, .* got a (Float32Array of 20|Tensor)/,
        );
        if (place === 'cpu') {
          expect(said([good, { ...good, data: tested().allocate({ shape: [20] }) }])).to.match(
            /Float32Array, got a Tensor/,
          );
        } else {
          expect(said([good, { ...good, data: new Float32Array(20) }])).to.match(
            /Tensor, got a Float32Array/,
          );
          const square = (data as Tensor).view({ shape: [5, 4] });
          expect(said([good, { data: square }])).to.match(/data's shape is \[5,4\]/);
          // A tensor whose strides differ from the specification is rejected, whatever shape and
          // strides the caller passes with it.
          using wide = tested().allocate({ shape: [4, 10] });
          const apart = wide.view({ shape: [4, 5], strides: [10, 1] });
          for (const over of [{}, { shape: [4, 5] }, { shape: [4, 5], strides: [5, 1] }])
            expect(said([good, { data: apart, ...over }])).to.match(
              /data's strides is \[10,1\].*\[5,1\]/,
            );
          const every = wide.view({ shape: [20], strides: [2] });
          expect(said([good, { data: every, shape: [4, 5], strides: [5, 1] }])).to.match(
            /data's shape is \[20\]/,
          );
          const gone = tested().allocate({ shape: [20] });
          gone.close();
          expect(said([good, { ...good, data: gone }])).to.match(/x\[1\]: its data is closed/);
        }
        expect([...(await valuesAt(scalar.getPackBuffer()))]).to.deep.equal(new Array(10).fill(3));
        // Omitted properties of a quantity default to those of the specification.
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

    it('have strides, item size, normalized slices and element counts', () => {
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
      expect(exchange({ packClockwiseRotation: 2 ** 60 + 2 ** 10 }).packClockwiseRotation).to.equal(
        2 ** 60 + 2 ** 10,
      );
      expect(exchange({ packClockwiseRotation: -0 }).packClockwiseRotation).to.deep.equal(0);
      expect([taken.packSize, taken.unpackSize]).to.deep.equal([6, 6]);
    });

    it('throw for inconsistent options, with the dimension and the values', () => {
      const quantity = (over: object) =>
        refusal(() => new QuantityHaloSpec({ ...good, ...over })).message;
      expect(quantity({ itemsize: 8 })).to.match(/itemsize of float32 is 4 bytes, got 8/);
      expect(quantity({ dtype: 'complex64' })).to.match(/unknown dtype 'complex64'/);
      expect(quantity({ nPoints: -1 })).to.match(/nPoints.*-1/);
      expect(quantity({ shape: [6] })).to.match(
        /shape has one number per dimension of \[i,j\], got \[6\]/,
      );
      expect(quantity({ shape: [6, 2.5] })).to.match(/shape of 'j'.*2\.5/);
      expect(quantity({ strides: [5, -1] })).to.match(/strides of 'j'.*-1/);
      expect(quantity({ strides: [5, 0] })).to.match(
        /'j': a stride of 0 puts 5 elements in one place/,
      );
      expect(quantity({ origin: [3, 1] })).to.match(
        /'i': a compute domain of 4 from 3 on ends beyond a dimension of 6/,
      );
      expect(quantity({ dims: ['i', 'i'] })).to.match(/'i' twice/);
      expect(quantity({ dims: ['i', 'i_interface'] })).to.match(/'i' and 'i_interface'/);
      expect(quantity({ dims: 'ij' })).to.match(/array of names/);
      expect(quantity({ halo: 3 })).to.match(/unknown option 'halo'/);
      const wrong = (over: object) => refusal(() => exchange(over)).message;
      // biome-ignore lint/suspicious/noSparseArray: what a caller may pass
      expect(wrong({ packSlices: [[0, 6], ,] })).to.match(/'j' is \[start, stop\].* got undefined/);
      // biome-ignore lint/suspicious/noSparseArray: likewise
      expect(quantity({ dims: ['i', ,] })).to.match(/array of names/);
      expect(wrong({ specification: {} })).to.match(/QuantityHaloSpec, got an object/);
      expect(wrong({ packClockwiseRotation: 0.5 })).to.match(/quarter turns, got 0\.5/);
      expect(wrong({ packSlices: [[0, 6]] })).to.match(
        /one \[start, stop\] per dimension of \[i,j\], got 1/,
      );
      expect(
        wrong({
          packSlices: [
            [0, 7],
            [0, 5],
          ],
        }),
      ).to.match(/packSlices of 'i': \[0,7\] is not a range of a dimension of 6/);
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
      ).to.match(/whole numbers, got \[0,'5'\]/);
    });

    it('HaloDataTransformer.get() throws for lists that are empty, uneven or mixed', () => {
      const said = (x: unknown, y?: unknown) =>
        refusal(() =>
          HaloDataTransformer.get('cpu', x as HaloExchangeSpec[], y as HaloExchangeSpec[]),
        ).message;
      const doubles = exchange({
        specification: new QuantityHaloSpec({ ...good, dtype: 'float64' }),
      });
      const whole = exchange({ specification: new QuantityHaloSpec({ ...good, dtype: 'int32' }) });
      expect(said([])).to.match(/at least one HaloExchangeSpec/);
      expect(said(exchange())).to.match(/x is an array of HaloExchangeSpecs/);
      expect(said([exchange(), undefined])).to.match(
        /x\[1\] must be a HaloExchangeSpec, got undefined/,
      );
      expect(said([exchange()], [])).to.match(/1 of x and 0 of y/);
      expect(said([exchange(), doubles])).to.match(/one dtype; got float32 and float64/);
      expect(said([exchange()], [doubles])).to.match(/float32 and float64/);
      expect(said([whole], [whole])).to.match(/float32 or float64.* got int32/);
      expect(said([exchange({ packClockwiseRotation: 1 })], [exchange()])).to.match(
        /turn together.* 1 and 0/,
      );
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
      expect(refusal(() => HaloDataTransformer.get(closed, [exchange()])).code).to.equal(
        'ERR_HOTSLOT_STATE_CLOSED',
      );
      expect(refusal(() => HaloDataTransformer.get('gpu' as 'cpu', [exchange()])).message).to.match(
        /opened device, got 'gpu'/,
      );
    });
  });
});
