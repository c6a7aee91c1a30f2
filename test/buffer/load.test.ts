/**
 * Tests ReplayBuffer's load() and dump() with files and arrays. Rows keep their bytes and order,
 * load() reads D4RL and Minari columns, and wrong data is rejected before any row is added.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { crc32 } from 'node:zlib';
import { expect } from 'chai';
import type { ArrayOf, DType } from '../../src/base/dtype.ts';
import {
  type NamedTensors,
  readNpz,
  type TensorData,
  writeNpz,
} from '../../src/entries/formats.ts';
import { RateLimiter, ReplayBuffer } from '../../src/index.ts';
import { exactly } from '../../src/store/rows/exact.ts';
import { inFolder, tensor } from '../formats/tensors.ts';
import { rejection } from '../rig/refusal.ts';
import { transitions, withCritic } from './transitions.ts';

const floats = (shape: number[], values: number[]): TensorData => ({
  dtype: 'float32',
  shape,
  data: Float32Array.from(values),
});
const bools = (...values: number[]): TensorData => ({
  dtype: 'bool',
  shape: [values.length],
  data: Uint8Array.from(values),
});
/** Returns all rows as numbers, oldest first, field by field. */
function rowsOf(buffer: ReplayBuffer): number[][] {
  const { ptr, size, capacity } = buffer;
  const indices = Uint32Array.from({ length: size }, (_, i) => (ptr - size + i) % capacity);
  const all = buffer.gather(indices, new Float32Array((size * buffer.rowBytes) / 4));
  return Array.from({ length: size }, (_, i) => [
    ...all.subarray((i * all.length) / size, ((i + 1) * all.length) / size),
  ]);
}
/**
 * Replaces `from` by `to` in a header within a zip file, and corrects the entry's checksum. Both
 * texts have the same length.
 */
function retyped(file: Buffer, from: string, to: string): Buffer {
  const at = file.indexOf(from);
  const [begin, name] = [file.lastIndexOf('PK\x03\x04', at, 'latin1'), 26];
  const sum = file.readUInt32LE(begin + 14);
  file.write(to, at, 'latin1');
  const size = file.readUInt32LE(begin + 18);
  const data = begin + 30 + file.readUInt16LE(begin + name) + file.readUInt16LE(begin + name + 2);
  const made = crc32(file.subarray(data, data + size));
  for (let i = 0; i + 4 <= file.length; i++)
    if (file.readUInt32LE(i) === sum) file.writeUInt32LE(made, i);
  return file;
}
const small = (capacity = 10) => ReplayBuffer.offPolicy({ capacity, obsDim: 1, actionDim: 1 });
/**
 * D4RL columns of three episodes: one that terminated, one that timed out, and the start of a
 * third.
 */
const d4rl: NamedTensors = {
  observations: floats([6, 1], [1, 2, 3, 4, 5, 6]),
  actions: floats([6, 1], [10, 20, 30, 40, 50, 60]),
  rewards: floats([6], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6].map(Math.fround)),
  terminals: bools(0, 1, 0, 0, 0, 0),
  timeouts: bools(0, 1, 0, 1, 0, 0),
};

describe('ReplayBuffer.load() and dump()', () => {
  it('load() derives dones from Gymnasium flags, and rejects dones that contradict the flags', async () => {
    const buffer = small();
    const { terminals: _, timeouts: __, ...rest } = d4rl;
    const next = { nextObs: floats([6, 1], [2, 3, 4, 5, 6, 7]) };
    const pair = { terminated: bools(0, 1, 0, 0, 1, 0), truncated: bools(0, 0, 0, 1, 1, 0) };
    expect(await buffer.load({ ...rest, ...next, ...pair })).to.equal(6);
    const flags = (from: number) =>
      rowsOf(buffer)
        .slice(from)
        .map((row) => row.slice(-2));
    const want = [
      [0, 0],
      [1, 0],
      [0, 0],
      [1, 1],
      [1, 0],
      [0, 0],
    ];
    expect(flags(0), 'dones and truncated: both flags count as terminated').to.deep.equal(want);
    // Without next observations, load() takes the next row's observation. It skips the two rows
    // that have none: the truncated row and the last row.
    expect(
      await buffer.load({ ...rest, ...pair }),
      'load() skips the truncated row and the last row',
    ).to.equal(4);
    const dones = floats([6], [0, 1, 0, 0, 1, 0]);
    const refused = await rejection(buffer.load({ ...rest, ...next, ...pair, dones }));
    expect(refused.message).to.include(
      'load: dones of row 3 is 0, with terminated 0 and truncated 1',
    );
    expect(buffer.ptr).to.equal(10);
  });

  it('load() rejects actions outside of `actionSpace` with their row', async () => {
    const buffer = small();
    const acted = (...values: number[]) => ({ ...d4rl, actions: floats([6, 1], values) });
    for (const bad of [10, 0.5, -1]) {
      const refused = await rejection(
        buffer.load(acted(0, 1, 2, 0, bad, 1), { actionSpace: { n: 3 } }),
      );
      expect(refused.message).to.equal(
        `load: actions of row 4 of the loaded data is ${bad}: an action is an index from 0 to 2`,
      );
    }
    const box = { actionSpace: { low: [-0.1], high: 0.1 } };
    const refused = await rejection(buffer.load(acted(0, 0.1, -0.1, 0.05, 0.11, 0), box));
    expect(refused.message).to.match(
      /^load: actions of row 4 of the loaded data holds 0\.109.* the box is -0\.1 to 0\.1\. Scale/,
    );
    expect(buffer.ptr).to.equal(0);
    expect(await buffer.load(acted(0, 0.1, -0.1, 0.05, 0.1, 0), box)).to.equal(4);
    expect(await buffer.load(acted(0, 1, 2, 0, 1, 1), { actionSpace: { n: 3 } })).to.equal(4);
    expect((await rejection(buffer.load(d4rl, { actionSpace: { n: 0 } }))).message).to.include(
      'actionSpace.n',
    );
    expect((await rejection(buffer.load(d4rl, { actionSpace: 3 as never }))).message).to.include(
      '{ n } or { low, high }',
    );
    const other = ReplayBuffer.create({ capacity: 4, fields: { rewards: { shape: [] } } });
    const none = await rejection(
      other.load({ rewards: floats([1], [0]) }, { actionSpace: { n: 3 } }),
    );
    expect(none.message).to.include("needs a field 'actions', which this buffer lacks");
  });

  it('load() rejects non-finite numbers with their row before adding any row', async () => {
    const buffer = small();
    const odd = (key: keyof typeof d4rl, at: number, value = Number.NaN): NamedTensors => {
      const { data, ...how } = d4rl[key] as TensorData;
      const changed = Float32Array.from(data as Float32Array);
      changed[at] = value;
      return { ...d4rl, [key]: { ...how, data: changed } };
    };
    for (const [key, words] of [
      ['rewards', 'rewards of row 4 of the loaded data holds NaN'],
      ['actions', 'actions of row 4 of the loaded data holds NaN'],
      // Row 3 was truncated and is skipped. So the first row that holds the NaN observation of row
      // 4 is row 4.
      ['observations', 'obs of row 4 of the loaded data holds NaN'],
    ] as const)
      expect((await rejection(buffer.load(odd(key, 4)))).message).to.include(words);
    expect(
      (
        await rejection(
          buffer.load({
            ...d4rl,
            rewards: {
              ...d4rl.rewards!,
              dtype: 'float64',
              data: Float64Array.of(0, 1, 2, 3, 1e39, 5),
            },
          }),
        )
      ).message,
    ).to.include('cannot hold the 1e+39 in row 4');
    expect(buffer.ptr).to.equal(0);
    // A terminated row stores 0 for a NaN next observation.
    const next = floats([6, 1], [2, Number.NaN, 4, 5, 6, 7]);
    expect(await buffer.load({ ...d4rl, next_observations: next })).to.equal(6);
    expect(rowsOf(buffer)[1]![1]).to.equal(0);
  });

  it('load() restores the rows of dump(), oldest first, after the ring has wrapped', () =>
    inFolder(
      async (folder) => {
        const make = () =>
          ReplayBuffer.offPolicy({ capacity: 7, obsDim: 3, actionDim: 2, criticDim: 4 });
        const [first, second] = [make(), make()];
        for (let i = 0; i < 5; i++) first.add(withCritic(2));
        const path = join(folder, 'rows.npz');
        expect(await first.dump(path)).to.equal(7);
        const { obs, nextObs, ...more } = await readNpz(path);
        expect([obs?.shape, nextObs?.shape, Object.keys(more)]).to.deep.equal([
          [7, 3],
          [7, 3],
          ['actions', 'rewards', 'dones', 'truncated', 'critic', 'nextCritic'],
        ]);
        expect(await second.load(pathToFileURL(path))).to.equal(7);
        expect(rowsOf(second as ReplayBuffer)).to.deep.equal(rowsOf(first as ReplayBuffer));
        const again = join(folder, 'again.npz');
        await second.dump(again);
        expect(await readNpz(again)).to.deep.equal(await readNpz(path));
      },
      ['again.npz', 'rows.npz'],
    ));

  it('load() and dump() keep the bytes of 200,000 rows in six dtypes', () =>
    inFolder(async (folder) => {
      const dtypes: DType[] = ['float16', 'int64', 'uint8', 'bool', 'float64', 'uint16'];
      const fields = Object.fromEntries(
        dtypes.map((dtype) => [`a ${dtype}`, { shape: [3, 1], dtype }]),
      );
      const columns = Object.fromEntries(
        Object.entries(fields).map(([key, { dtype }], i) => [key, tensor(dtype, [200_000, 3], i)]),
      );
      const made = ReplayBuffer.create({ capacity: 200_000, fields });
      expect(await made.load(columns)).to.equal(200_000);
      await made.dump(join(folder, 'x.npz'));
      const found = await readNpz(join(folder, 'x.npz'));
      for (const [key, { data }] of Object.entries(columns))
        expect(
          Buffer.compare(Buffer.from(found[key]!.data.buffer), Buffer.from(data.buffer)),
          key,
        ).to.equal(0);
      expect(found['a bool']!.shape).to.deep.equal([200_000, 3, 1]);
    }));

  it('load() reads D4RL columns with or without next_observations', async () => {
    const buffer = small();
    // load() skips the last row of the timed-out episode and the last row of the file, which have
    // no next observation.
    expect(await buffer.load(d4rl)).to.equal(4);
    const wanted = [
      [1, 2, 10, 0.1, 0, 0],
      [2, 2, 20, 0.2, 1, 0],
      [3, 4, 30, 0.3, 0, 0],
      [5, 6, 50, 0.5, 0, 0],
    ];
    expect(rowsOf(buffer as ReplayBuffer)).to.deep.equal(wanted.map((row) => row.map(Math.fround)));
    const whole = small();
    expect(
      await whole.load({ ...d4rl, next_observations: floats([6, 1], [7, 8, 9, 10, 11, 12]) }),
    ).to.equal(6);
    expect(
      rowsOf(whole as ReplayBuffer).map(([, next, , , done, cut]) => [next, done, cut]),
    ).to.deep.equal([
      [7, 0, 0],
      [8, 1, 0],
      [9, 0, 0],
      [10, 1, 1],
      [11, 0, 0],
      [12, 0, 0],
    ]);
  });

  describe('load() of Minari columns', () => {
    const ints = (...values: number[]): TensorData => ({
      dtype: 'int64',
      shape: [values.length],
      data: BigInt64Array.from(values, BigInt),
    });
    /**
     * Three episodes: 3 steps that terminate, 1 step that is truncated, 2 steps that end with both
     * flags. Observation t of episode e is 10 e + t.
     */
    const lengths = [3, 1, 2];
    const steps = lengths.flatMap((length, e) =>
      Array.from({ length }, (_, t) => ({ e, t, last: t === length - 1 })),
    );
    const minari: NamedTensors = {
      observations: floats(
        [9, 1],
        lengths.flatMap((length, e) => Array.from({ length: length + 1 }, (_, t) => 10 * e + t)),
      ),
      actions: ints(0, 1, 2, 3, 4, 5),
      rewards: floats([6], [1, 2, 3, 4, 5, 6]),
      terminations: bools(...steps.map(({ e, last }) => Number(last && e !== 1))),
      truncations: bools(...steps.map(({ e, last }) => Number(last && e !== 0))),
    };
    /** obs, nextObs, actions, rewards, dones, truncated */
    const wanted = steps.map(({ e, t, last }, i) => [
      10 * e + t,
      10 * e + t + 1,
      i,
      i + 1,
      Number(last),
      Number(last && e === 1),
    ]);

    it('stores the next observation of the episode for each step, including the final one', async () => {
      const buffer = small();
      expect(await buffer.load(minari)).to.equal(6);
      expect(rowsOf(buffer as ReplayBuffer)).to.deep.equal(wanted);
      const part = small();
      expect(await part.load(minari, { rows: { from: 2, to: 5 } })).to.equal(3);
      expect(rowsOf(part as ReplayBuffer)).to.deep.equal(wanted.slice(2, 5));
      // A single episode whose end has no flag.
      const { observations, ...rest } = minari;
      const first = Object.entries(rest).map(([name, { data, ...each }]) => [
        name,
        { ...each, shape: [3], data: data.slice(0, 3) },
      ]);
      const one = {
        ...Object.fromEntries(first),
        terminations: bools(0, 0, 0),
        observations: floats([4, 1], [0, 1, 2, 3]),
      };
      const episode = small();
      expect(await episode.load(one)).to.equal(3);
      expect(rowsOf(episode as ReplayBuffer).map(([obs, next]) => [obs, next])).to.deep.equal([
        [0, 1],
        [1, 2],
        [2, 3],
      ]);
      expect(observations!.shape).to.deep.equal([9, 1]);
    });

    it('reads observations from a file under the name that `columns` gives', () =>
      inFolder(
        async (folder) => {
          const { observations, ...rest } = minari;
          const path = join(folder, 'x.npz');
          await writeNpz(path, {
            ...rest,
            'observations/state': observations as TensorData,
            'infos/x': floats([2], [1, 2]),
          });
          const buffer = small();
          expect(await buffer.load(path, { columns: { obs: 'observations/state' } })).to.equal(6);
          expect(rowsOf(buffer as ReplayBuffer)).to.deep.equal(wanted);
        },
        ['x.npz'],
      ));

    it('accepts observations without the final ones, and rejects any other row count', async () => {
      const buffer = small();
      expect(
        await buffer.load({ ...minari, observations: floats([6, 1], [0, 1, 2, 10, 20, 21]) }),
      ).to.equal(5);
      expect(rowsOf(buffer as ReplayBuffer).map(([obs, next]) => [obs, next])).to.deep.equal([
        [0, 1],
        [1, 2],
        [2, 2],
        [20, 21],
        [21, 21],
      ]);
      const error = await rejection(
        small().load({ ...minari, observations: floats([8, 1], Array(8).fill(0)) }),
      );
      expect([(error as Error & { code?: string }).code, error.message]).to.deep.equal([
        'ERR_HOTSLOT_RANGE',
        "load: column 'observations' has 8 rows; 'terminations' has 6 steps in 3 episodes: it must have 6 rows, " +
          'one for each step, or 9, one more for each episode',
      ]);
    });
  });

  it('load() accepts a range of rows, renamed columns, wider dtypes and omitted dimensions of 1', async () => {
    const buffer = small(3);
    const { observations, actions, ...rest } = d4rl;
    const wide = (each: TensorData, shape: number[]): TensorData => ({
      dtype: 'float64',
      shape,
      data: Float64Array.from(each.data as Float32Array),
    });
    const given = {
      ...rest,
      state: wide(observations as TensorData, [6]),
      actions: {
        dtype: 'int64',
        shape: [6, 1],
        data: BigInt64Array.from([10n, 20n, 30n, 40n, 50n, 60n]),
      } as const,
      'infos/goal': tensor('float32', [2, 2]),
    };
    expect(
      await buffer.load(given, { columns: { obs: 'state' }, rows: { from: 2, to: 5 } }),
    ).to.equal(2);
    expect(rowsOf(buffer as ReplayBuffer).map((row) => row.slice(0, 3))).to.deep.equal([
      [3, 4, 30],
      [5, 6, 50],
    ]);
    expect(await buffer.load(given, { columns: { obs: 'state' }, rows: { to: 0 } })).to.equal(0);
    expect(buffer.ptr).to.equal(2);
  });

  it('exactly() reports the first number that a dtype cannot hold, and rounds only to float32', () => {
    const cases: [DType, ArrayOf<DType>, DType, number[] | bigint[] | number][] = [
      [
        'float64',
        Float64Array.of(0.1, Number.NaN, Infinity),
        'float32',
        [Math.fround(0.1), Number.NaN, Infinity],
      ],
      ['float64', Float64Array.of(1, 1e39), 'float32', 1],
      ['float32', Float32Array.of(1, 0.5), 'float64', [1, 0.5]],
      ['float32', Float32Array.of(1, -2), 'int8', [1, -2]],
      ['float32', Float32Array.of(1, 0.5), 'int8', 1],
      ['float32', Float32Array.of(Number.NaN), 'int32', 0],
      ['int64', BigInt64Array.of(5n, -7n), 'int32', [5, -7]],
      ['int64', BigInt64Array.of(0n, 2n ** 24n + 1n), 'float32', 1],
      ['int64', BigInt64Array.of(2n ** 53n + 1n), 'float64', 0],
      ['int64', BigInt64Array.of(3n, -1n), 'uint64', 1],
      ['uint8', Uint8Array.of(0, 255), 'int64', [0n, 255n]],
      ['float64', Float64Array.of(2, 0.5), 'int64', 1],
      ['int16', Int16Array.of(1, 300), 'uint8', 1],
      ['int16', Int16Array.of(0, 1, 2), 'bool', 2],
      ['bool', Uint8Array.of(0, 1), 'float32', [0, 1]],
      ['float32', Float32Array.of(1, 0.1), 'float16', 1],
      ['float32', Float32Array.of(1, -0.5), 'float16', [0x3c00, 0xb800]],
      ['float16', Uint16Array.of(0x3c00, 0xb800), 'bfloat16', [0x3f80, 0xbf00]],
      ['uint64', BigUint64Array.of(2n ** 11n + 1n), 'float16', 0],
    ];
    for (const [from, data, to, wanted] of cases) {
      const made = exactly(data, from, to);
      expect(
        'lost' in made ? made.lost : [...(made.data as Uint8Array)],
        `${from} to ${to}`,
      ).to.deep.equal(wanted);
    }
  });

  it('load() ignores a column of an unsupported dtype unless a field reads the column', () =>
    inFolder(async (folder) => {
      const path = join(folder, 'x.npz');
      // Makes a column of an unsupported dtype: a float16 column whose header says that it is text
      // of two bytes.
      await writeNpz(path, {
        ...d4rl,
        notes: { dtype: 'float16', shape: [6], data: new Uint16Array(6) },
      });
      writeFileSync(path, retyped(readFileSync(path), "'<f2'", "'|S2'"));
      using buffer = small();
      expect(await buffer.load(path)).to.equal(4);
      const asked = await rejection(buffer.load(path, { columns: { rewards: 'notes' } }));
      expect([asked.name, asked.message]).to.satisfy(
        ([name, message]: string[]) =>
          name === 'TypeError' && /'notes\.npy': its dtype '\|S2' is bytes of text/.test(message!),
      );
      expect(buffer.ptr).to.equal(4);
    }));

  it('load() and dump() reject invalid input with the reason, and load() adds no row', async () => {
    const buffer = small();
    const { actions, rewards, terminals, timeouts, ...without } = d4rl;
    const cases: [string, unknown, object?][] = [
      [
        "column 'actions' is missing; the columns are observations, terminals",
        { ...without, terminals },
      ],
      [
        "columns.obs names 'state', which is missing; the columns are observations",
        d4rl,
        { columns: { obs: 'state' } },
      ],
      ["load: columns: unknown option 'observations'", d4rl, { columns: { observations: 'obs' } }],
      ["load: unknown option 'row'", d4rl, { row: 1 }],
      [
        'load: rows.to must be a whole number of at least 3 and at most 6, got 7',
        d4rl,
        { rows: { from: 3, to: 7 } },
      ],
      [
        "column 'observations' is [3,2]; for the field 'obs' it must be [rows, 1]",
        { ...d4rl, observations: floats([3, 2], [1, 2, 3, 4, 5, 6]) },
      ],
      [
        "'observations' has 6 rows, 'actions' 5",
        { ...d4rl, actions: floats([5], [1, 2, 3, 4, 5]) },
      ],
      [
        "column 'actions' is int64, the field 'actions' float32, which cannot hold the 16777217 in row 4",
        {
          ...d4rl,
          actions: {
            dtype: 'int64',
            shape: [6],
            data: BigInt64Array.of(0n, 1n, 2n, 3n, 16777217n, 5n),
          },
        },
      ],
      [
        "column 'terminals' is float32, the field 'terminals' bool, which cannot hold the 0.5 in row 1",
        { ...d4rl, terminals: floats([6], [0, 0.5, 0, 0, 0, 0]) },
      ],
      ["'timeouts' is needed, and it is missing", { ...without, actions, rewards, terminals }],
      ["column 'truncated' is missing", { ...without, actions, rewards, dones: terminals }],
      ["load: 'obs': dtype: unknown dtype undefined", { obs: new Float32Array(3) }],
      ['load takes a path, a file: URL or an object of arrays as readNpz() gives it, got 7', 7],
      ['load takes a path or a file: URL', new URL('http://localhost/x.npz')],
      ['no such file', '/nowhere/at/all.npz'],
    ];
    for (const [says, from, options] of cases)
      expect(
        (await rejection(() => buffer.load(from as NamedTensors, options as object))).message,
        says,
      ).to.include(says);
    const tight = small(3);
    const over = await rejection(tight.load(d4rl));
    expect([over.code, over.message]).to.deep.equal([
      'ERR_HOTSLOT_RANGE',
      'load: 4 rows are more than the capacity of 3: pick some with rows: { from, to }, or make the buffer larger',
    ]);
    expect([buffer.ptr, tight.ptr]).to.deep.equal([0, 0]);
    expect((await rejection(buffer.dump('/nowhere/x.npz'))).code).to.equal(
      'ERR_HOTSLOT_STATE_EMPTY',
    );
    expect((await rejection(buffer.dump(3 as never))).message).to.include(
      'dump takes a path or a file: URL, got 3',
    );
    buffer.close();
    expect((await rejection(buffer.load(d4rl))).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
  });

  it('load() counts rows as inserts, and rejects with advice if the limiter gates add()', async () => {
    const limit = { samplesPerInsert: 1, minSize: 1, errorBuffer: 2 };
    const open = RateLimiter.create(limit);
    const buffer = ReplayBuffer.offPolicy({ capacity: 10, obsDim: 1, actionDim: 1, limiter: open });
    await buffer.load(d4rl);
    expect(open.inserts).to.equal(4);
    const gate = RateLimiter.create({ ...limit, gateAdd: true });
    const gated = ReplayBuffer.offPolicy({ capacity: 10, obsDim: 1, actionDim: 1, limiter: gate });
    const error = await rejection(gated.load(d4rl));
    expect(error.code).to.equal('ERR_HOTSLOT_STATE_BUSY');
    expect(error.message).to.match(
      /gates add\(\).*no row was added\. For offline data make the buffer without a limiter/,
    );
    expect(gated.ptr).to.equal(0);
    gate.countSamples(2);
    expect(await gated.load(d4rl)).to.equal(4);
  });

  it('dump() rejects and keeps the existing file if rows are added during the dump', () =>
    inFolder(
      async (folder) => {
        const buffer = ReplayBuffer.offPolicy({ capacity: 10, obsDim: 3, actionDim: 2 });
        buffer.add(transitions(4));
        const path = join(folder, 'x.npz');
        await writeNpz(path, { old: tensor('int8', [1]) });
        const written = buffer.dump(path);
        // dump() starts to read after it has loaded the code for files. It checks ptr after each
        // piece.
        const gather = buffer.gather.bind(buffer);
        buffer.gather = (indices, out) => {
          buffer.add(transitions(1));
          return gather(indices, out);
        };
        const error = await rejection(written);
        expect([error.code, error.message]).to.deep.equal([
          'ERR_HOTSLOT_STATE_BUSY',
          'dump: 1 rows were added while it read, so nothing was written; pause the writers first',
        ]);
        expect(Object.keys(await readNpz(path))).to.deep.equal(['old']);
      },
      ['x.npz'],
    ));
});
