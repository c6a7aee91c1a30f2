/**
 * Tests masks of legal actions in buffers: they are stored as bits, and add(), read(), samples and
 * files show them as booleans. Random masks of all sizes around a word are compared with bits that
 * this file computes itself.
 */
import { join } from 'node:path';
import { expect } from 'chai';
import { readNpz } from '../../src/entries/formats.ts';
import {
  Checkpoint,
  Random,
  ReplayBuffer,
  ReplayPipeline,
  TrajectoryBuffer,
} from '../../src/index.ts';
import { bufferLike, describeLayout, layoutText } from '../../src/net/remote/layout.ts';
import { inFolder } from '../formats/tensors.ts';
import { refusal, rejection } from '../rig/refusal.ts';

const sizes = [1, 2, 31, 32, 33, 63, 64, 65, 100, 4096];
const words = (n: number) => Math.ceil(n / 32);

/** Returns `rows` masks of n actions with random legal actions. */
function masksOf(random: Random, rows: number, n: number): Uint8Array {
  return Uint8Array.from({ length: rows * n }, () => random.below(2));
}

/** Returns the words of masks, by arithmetic on big integers. */
function bitsOf(masks: Uint8Array, n: number): number[] {
  const found: number[] = [];
  for (let at = 0; at < masks.length; at += n) {
    let all = 0n;
    for (let i = 0; i < n; i++) if (masks[at + i]) all += 2n ** BigInt(i);
    for (let word = 0; word < words(n); word++)
      found.push(Number((all >> BigInt(32 * word)) % 2n ** 32n));
  }
  return found;
}

describe('masks in a ReplayBuffer', () => {
  for (const n of sizes)
    it(`stores masks of ${n} actions as ${words(n)} words`, () => {
      const random = new Random(n);
      using buffer = ReplayBuffer.create({
        capacity: 8,
        fields: { flag: { shape: [], dtype: 'uint8' }, legal: { mask: n }, x: { shape: [] } },
      });
      const { legal } = buffer.layout.fields;
      expect(legal).to.deep.include({
        dtype: 'uint32',
        shape: [words(n)],
        offset: 4,
        bytes: 4 * words(n),
        mask: n,
      });
      expect(buffer.rowBytes).to.equal(8 + 4 * words(n));
      // The second add() is longer and the third one shorter, so an array that is used again shows.
      for (const rows of [2, 5, 1]) {
        const masks = masksOf(random, rows, n);
        const x = new Float32Array(rows).fill(rows);
        const { ptr } = buffer;
        buffer.add({ flag: new Uint8Array(rows).fill(255), legal: masks, x });
        const indices = Uint32Array.from({ length: rows }, (_, i) => ptr + i);
        const bytes = buffer.gather(indices, new Uint8Array(rows * buffer.rowBytes));
        const view = new DataView(bytes.buffer);
        const stored = indices.reduce<number[]>((all, _, row) => {
          const from = row * buffer.rowBytes;
          expect([view.getUint8(from), view.getFloat32(from + 4 + 4 * words(n), true)]).to.eql([
            255,
            rows,
          ]);
          for (let word = 0; word < words(n); word++)
            all.push(view.getUint32(from + 4 + 4 * word, true));
          return all;
        }, []);
        expect(stored).to.deep.equal(bitsOf(masks, n));
      }
    });

  it('takes the terminal mask of rows that terminalMask names', () => {
    using buffer = ReplayBuffer.offPolicy({
      capacity: 4,
      obsDim: 1,
      actionDim: 1,
      criticDim: 2,
      actionMask: 3,
    });
    const one = Float32Array.of(0, 0);
    buffer.add({
      obs: one,
      nextObs: one,
      terminalNextObs: one,
      critic: new Float32Array(4),
      nextCritic: new Float32Array(4),
      terminalNextCritic: new Float32Array(4),
      actions: one,
      rewards: one,
      terminated: [false, true],
      truncated: [false, false],
      terminalMask: [false, true],
      actionMask: Uint8Array.of(1, 0, 1, 0, 1, 1),
      nextActionMask: Uint8Array.of(1, 1, 1, 1, 1, 1),
      terminalNextActionMask: Uint8Array.of(0, 0, 1, 0, 1, 0),
    });
    const { actionMask, nextActionMask } = {
      actionMask: buffer.layout.fields.action_mask!,
      nextActionMask: buffer.layout.fields.next_action_mask!,
    };
    const bytes = buffer.gather(Uint32Array.of(0, 1), new Uint8Array(2 * buffer.rowBytes));
    const word = (row: number, { offset }: { offset: number }) =>
      new DataView(bytes.buffer).getUint32(row * buffer.rowBytes + offset, true);
    expect([word(0, actionMask), word(1, actionMask)]).to.deep.equal([0b101, 0b110]);
    expect([word(0, nextActionMask), word(1, nextActionMask)]).to.deep.equal([0b111, 0b010]);
    expect([actionMask.key, nextActionMask.key]).to.deep.equal(['actionMask', 'nextActionMask']);
  });

  it('writes booleans to a file, and loads them again', async () => {
    await inFolder(async (folder) => {
      for (const n of [1, 33, 64]) {
        const random = new Random(n, 1);
        const fields = { obs: { shape: [2] }, legal: { mask: n } } as const;
        using buffer = ReplayBuffer.create({ capacity: 5, fields });
        const masks = masksOf(random, 7, n);
        const obs = Float32Array.from({ length: 14 }, (_, i) => i);
        buffer.add({ obs: obs.subarray(0, 6), legal: masks.subarray(0, 3 * n) });
        buffer.add({ obs: obs.subarray(6), legal: masks.subarray(3 * n) });
        const file = join(folder, `${n}.npz`);
        await buffer.dump(file);
        const { legal } = await readNpz(file);
        expect([legal!.dtype, legal!.shape]).to.deep.equal(['bool', [5, n]]);
        expect(Array.from(legal!.data as Uint8Array)).to.deep.equal(
          Array.from(masks.subarray(2 * n)),
        );
        using again = ReplayBuffer.create({ capacity: 5, fields });
        expect(await again.load(file)).to.equal(5);
        const rows = (of: typeof buffer, from: number) =>
          of.gather(
            Uint32Array.from({ length: 5 }, (_, i) => (from + i) % 5),
            new Uint8Array(5 * of.rowBytes),
          );
        expect(rows(again, 0)).to.deep.equal(rows(buffer, 2));
      }
    });
  });

  it('takes the mask of the next row for a file without next masks', async () => {
    using buffer = ReplayBuffer.offPolicy({ capacity: 4, obsDim: 1, actionDim: 1, actionMask: 2 });
    const column = (dtype: 'float32' | 'bool', data: number[], shape = [data.length]) => ({
      dtype,
      shape,
      data: dtype === 'bool' ? Uint8Array.from(data) : Float32Array.from(data),
    });
    await buffer.load({
      obs: column('float32', [1, 2, 3], [3, 1]),
      actions: column('float32', [0, 0, 1], [3, 1]),
      rewards: column('float32', [0, 0, 0]),
      terminated: column('bool', [0, 0, 1]),
      truncated: column('bool', [0, 0, 0]),
      actionMask: column('bool', [1, 0, 0, 1, 1, 1], [3, 2]),
    });
    const { next_action_mask: next } = buffer.layout.fields;
    const bytes = buffer.gather(Uint32Array.of(0, 1, 2), new Uint8Array(3 * buffer.rowBytes));
    const word = (row: number) =>
      new DataView(bytes.buffer).getUint32(row * buffer.rowBytes + next!.offset, true);
    expect([word(0), word(1), word(2)]).to.deep.equal([0b10, 0b11, 0b11]);
  });

  it('gives a pipeline the words of its rows', async () => {
    for (const n of [6, 40]) {
      const masks = masksOf(new Random(n, 2), 16, n);
      using buffer = ReplayBuffer.create({
        capacity: 16,
        fields: { number: { shape: [] }, legal: { mask: n } },
      });
      buffer.add({ number: Float32Array.from({ length: 16 }, (_, i) => i), legal: masks });
      await using pipeline = await ReplayPipeline.open({ buffer, sampleCount: 32, device: 'host' });
      const batch = await pipeline.sampleLargeBatch(0, 32);
      expect([batch.legal.dtype, batch.legal.shape]).to.deep.equal(['uint32', [32, words(n)]]);
      const rows = Array.from(await batch.number.toArray());
      const expected = rows.flatMap((row) => bitsOf(masks.subarray(row * n, (row + 1) * n), n));
      expect(Array.from(await batch.legal.toArray())).to.deep.equal(expected);
      pipeline.afterTick();
    }
  });
});

describe('masks in a TrajectoryBuffer', () => {
  const make = (n: number, capacity = 40) =>
    TrajectoryBuffer.create({
      capacity,
      lanes: 2,
      fields: {
        at: { shape: [], observation: true },
        legal: { mask: n, observation: true },
        could: { mask: n },
        actions: { shape: [], dtype: 'int32' },
      },
    });
  type Buffer = ReturnType<typeof make>;

  /**
   * Adds steps to both lanes, of which every third ends an episode, in turn by termination and by
   * truncation. The observation `at` is the index of a mask: 100 · lane + step, and 50 more for a
   * final one.
   */
  function fill(buffer: Buffer, masks: (at: number) => Uint8Array, steps: number): void {
    using writer = buffer.writer();
    for (let step = 0; step < steps; step++) {
      const lanes = [step, 100 + step];
      const of = (places: readonly number[]) =>
        Uint8Array.from(places.flatMap((at) => Array.from(masks(at))));
      const ends = step % 3 === 2;
      const terminated = ends && step % 2 === 0;
      writer.add({
        at: Float32Array.from(lanes),
        legal: of(lanes),
        could: of(lanes.map((at) => at + 1)),
        finalAt: Float32Array.from(lanes, (at) => at + 50),
        finalLegal: of(lanes.map((at) => at + 50)),
        actions: Int32Array.from(lanes),
        rewards: new Float32Array(2),
        terminated: [terminated, terminated],
        truncated: [ends && !terminated, ends && !terminated],
      });
    }
  }
  const maskOf = (n: number) => (at: number) => masksOf(new Random(at + 1, n), 1, n);
  const expected = (places: ArrayLike<number>, n: number) =>
    Array.from(places).flatMap((at) => Array.from(maskOf(n)(at)));

  for (const n of sizes)
    it(`returns masks of ${n} actions as booleans`, () => {
      using buffer = make(n);
      fill(buffer, maskOf(n), 12);
      const fields = Object.fromEntries(buffer.layout.fields.map((field) => [field.key, field]));
      expect(fields.legal).to.include({ dtype: 'uint32', mask: n, bytes: 4 * words(n) });
      const read = buffer.read(Array.from({ length: 24 }, (_, id) => id));
      expect(Array.from(read.final)).to.include(1);
      expect(Array.from(read.legal)).to.deep.equal(expected(read.at, n));
      for (const options of [{}, { nStep: 2 }, { stack: { at: 2 } }]) {
        const view = buffer.transitions(options);
        const sample = buffer.sample({ view, seed: 3, count: 64 });
        const now = sample.at.filter((_, i) => !('stack' in options) || i % 2 === 1);
        const next = sample.nextAt.filter((_, i) => !('stack' in options) || i % 2 === 1);
        expect(Array.from(sample.legal)).to.deep.equal(expected(now, n));
        expect(Array.from(sample.nextLegal)).to.deep.equal(expected(next, n));
        expect(Array.from(sample.could)).to.deep.equal(
          expected(
            now.map((at) => at + 1),
            n,
          ),
        );
        expect(next.some((at) => at % 100 >= 50)).to.equal(true);
      }
      const view = buffer.windows({ length: 2, edges: 'full' });
      const windows = buffer.sample({ view, seed: 4, count: 16 });
      expect(Array.from(windows.legal)).to.deep.equal(expected(windows.at, n));
      expect(windows.legal.length).to.equal(16 * 3 * n);
    });

  it('writes booleans to a file, and loads them again', async () => {
    await inFolder(async (folder) => {
      for (const n of [3, 32, 65]) {
        using buffer = make(n);
        fill(buffer, maskOf(n), 8);
        const file = join(folder, `${n}.npz`);
        expect(await buffer.dump(file)).to.equal(16);
        const { legal, finalLegal, at, finalAt } = await readNpz(file);
        expect([legal!.dtype, legal!.shape]).to.deep.equal(['bool', [16, n]]);
        expect([finalLegal!.dtype, finalLegal!.shape]).to.deep.equal(['bool', [4, n]]);
        const numbers = (of: typeof at) => Array.from(of!.data as Float32Array);
        expect(Array.from(legal!.data as Uint8Array)).to.eql(expected(numbers(at), n));
        expect(Array.from(finalLegal!.data as Uint8Array)).to.eql(expected(numbers(finalAt), n));
        using again = make(n);
        await again.load(file);
        const read = again.read([0, 1, 2, 3, 4, 5, 6, 7]);
        expect(read).to.deep.equal(buffer.read([0, 1, 2, 3, 4, 5, 6, 7]));
      }
    });
  });

  it('gives a pipeline the words of next and final masks', async () => {
    for (const n of [5, 70]) {
      using buffer = make(n);
      fill(buffer, maskOf(n), 12);
      const view = buffer.transitions();
      await using pipeline = await ReplayPipeline.open({
        buffer,
        view,
        sampleCount: 32,
        device: 'host',
      });
      const batch = await pipeline.sampleLargeBatch(0, 32);
      expect([batch.nextLegal.dtype, batch.nextLegal.shape]).to.eql(['uint32', [32, words(n)]]);
      const bits = (places: ArrayLike<number>) =>
        Array.from(places).flatMap((at) => bitsOf(maskOf(n)(at), n));
      expect(Array.from(await batch.legal.toArray())).to.eql(bits(await batch.at.toArray()));
      expect(Array.from(await batch.nextLegal.toArray())).to.eql(
        bits(await batch.nextAt.toArray()),
      );
      pipeline.afterTick();
    }
  });

  it('rejects a stack of masks', () => {
    using buffer = make(3);
    expect(refusal(() => buffer.transitions({ stack: { legal: 2 } })).message).to.equal(
      'stack.legal: masks cannot be stacked; the last one counts',
    );
  });
});

describe('masks elsewhere', () => {
  it('the layout of a buffer with masks makes an equal buffer on another host', () => {
    using plain = ReplayBuffer.offPolicy({ capacity: 2, obsDim: 3, actionDim: 1 });
    expect(layoutText(plain as never)).to.not.include('mask');
    const buffers = [
      ReplayBuffer.offPolicy({ capacity: 2, obsDim: 3, actionDim: 1, actionMask: 33 }),
      ReplayBuffer.create({ capacity: 2, fields: { legal: { mask: 7 }, x: { shape: [] } } }),
      TrajectoryBuffer.create({
        capacity: 8,
        lanes: 2,
        fields: { obs: { shape: [1], observation: true }, m: { mask: 64, observation: true } },
      }),
    ] as unknown as ReplayBuffer[];
    const texts = buffers.map((buffer) => {
      using other = bufferLike(layoutText(buffer), 65_536, 2);
      expect(other.layout).to.deep.equal(buffer.layout);
      const text = describeLayout(layoutText(buffer));
      buffer.close();
      return text;
    });
    expect(texts[0]).to.include('actionMask mask[33], nextActionMask mask[33]');
    expect(texts[2]).to.equal('obs float32[1], m mask[64]');
  });

  it('an attached buffer packs and shows masks as the first one', () => {
    using buffer = ReplayBuffer.create({ capacity: 2, fields: { legal: { mask: 40 } } });
    using other = ReplayBuffer.attach(structuredClone(buffer.share()) as never);
    const masks = masksOf(new Random(5), 1, 40);
    other.add({ legal: masks });
    const bytes = buffer.gather(Uint32Array.of(0), new Uint8Array(8));
    expect(Array.from(new Uint32Array(bytes.buffer))).to.deep.equal(bitsOf(masks, 40));
    const { layout, ...rest } = buffer.share();
    const fields = { legal: { ...layout.fields.legal!, mask: 70 } };
    expect(
      refusal(() => ReplayBuffer.attach({ ...rest, layout: { ...layout, fields } })).message,
    ).to.equal('field legal, uint32[2], cannot store masks of 70 actions');
  });

  it('a checkpoint keeps masks, and does not fit masks of another size', async () => {
    await inFolder(async (folder) => {
      const make = (n: number) => ReplayBuffer.create({ capacity: 3, fields: { m: { mask: n } } });
      using buffer = make(33);
      const masks = masksOf(new Random(6), 4, 33);
      buffer.add({ m: masks.subarray(0, 66) });
      buffer.add({ m: masks.subarray(66) });
      const checkpoint = await Checkpoint.open(folder, { buffer: buffer as never });
      await checkpoint.save();
      await checkpoint.close();
      expect((await Checkpoint.inspect(folder))?.parts.buffer?.is).to.deep.include({
        fields: { m: 'mask[33]' },
      });
      using other = make(34);
      const error = await rejection(Checkpoint.restore(folder, { buffer: other as never }));
      expect(error.message).to.include('buffer.fields.m is "mask[34]" here, "mask[33]"');
      using again = make(33);
      await Checkpoint.restore(folder, { buffer: again as never });
      const rows = (of: typeof buffer) => of.gather(Uint32Array.of(0, 1, 2), new Uint8Array(24));
      expect(rows(again)).to.deep.equal(rows(buffer));
    });
  });

  it('rejects wrong sizes and wrong arrays, and adds nothing', () => {
    const create = (spec: unknown) =>
      ReplayBuffer.create({ capacity: 2, fields: { m: spec as { mask: number } } });
    const texts = [
      [{ mask: 0 }, 'fields.m.mask must be a whole number of at least 1 and at most 4096, got 0'],
      [{ mask: 4097 }, 'at most 4096, got 4097'],
      [{ mask: 1.5 }, 'at most 4096, got 1.5'],
      [{ mask: '6' }, 'fields.m.mask must be a number, got string (6)'],
      [{ mask: 6, shape: [6] }, "fields.m with a mask: unknown option 'shape'; it takes mask"],
      [{ dtype: 'bool' }, 'or { mask: number of actions }, got an object'],
    ] as const;
    for (const [spec, text] of texts)
      expect(refusal(() => create(spec)).message, JSON.stringify(spec)).to.include(text);
    expect(refusal(() => ReplayBuffer.offPolicy({ ...dims, actionMask: 5000 })).message).to.equal(
      'actionMask must be a whole number of at least 1 and at most 4096, got 5000',
    );
    expect(
      refusal(() =>
        TrajectoryBuffer.create({
          ...{ capacity: 8, lanes: 1 },
          fields: { m: { mask: 5000, observation: true } },
        }),
      ).message,
    ).to.include('fields.m.mask must be a whole number of at least 1 and at most 4096, got 5000');
    using absent = create({ mask: undefined, shape: [2] });
    expect(absent.layout.fields.m).to.deep.include({ dtype: 'float32', shape: [2] });
    using buffer = create({ mask: 3 });
    const added = [
      [[1, 0, 1], 'm must be a Uint8Array (bool), got an array of 3'],
      [Uint32Array.of(5), 'm must be a Uint8Array (bool), got a Uint32Array of 1'],
      [new Uint8Array(4), 'm must hold whole rows of 3 elements, got 4 elements'],
    ] as const;
    for (const [m, text] of added)
      expect(refusal(() => buffer.add({ m: m as Uint8Array })).message).to.equal(text);
    expect(buffer.ptr).to.equal(0);
  });
});

const dims = { capacity: 2, obsDim: 1, actionDim: 1 } as const;
