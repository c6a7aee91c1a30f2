/**
 * Tests that buffers store the masks of the states of their rows, also if threads end between a
 * mask and a step, and which fields store masks.
 */
import { expect } from 'chai';
import { vectorCollector } from '../../src/entries/collect.ts';
import {
  CollectorPool,
  type CollectorPoolOptions,
  ReplayBuffer,
  TrajectoryBuffer,
} from '../../src/index.ts';
import { threadsOf } from '../../src/run/collectors/collector-pool.ts';
import * as columns from '../../src/run/environments/columns.ts';
import { givesMasks } from '../../src/run/environments/gives-masks.ts';
import { EnvironmentList } from '../../src/run/environments/vector-environment.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { Counting, contextOf } from './counting.ts';
import { ACTIONS, legalOf, Masked, type MaskedOptions, storedMask } from './masked.ts';

const ENTRY = new URL('./masked.js', import.meta.url);

const fields = {
  obs: { shape: [4] },
  nextObs: { shape: [4] },
  actions: { shape: [], dtype: 'uint8' },
  terminated: { shape: [], dtype: 'bool' },
} as const;
const bits = { actionMask: { mask: ACTIONS }, nextActionMask: { mask: ACTIONS } } as const;
const bools = { shape: [ACTIONS], dtype: 'bool' } as const;

/** Returns the values of a field in a packed row. Bits of a mask become bytes. */
function valuesOf(buffer: ReplayBuffer, row: Uint8Array, key: string): number[] {
  const field = Object.values(buffer.layout.fields).find((field) => field.key === key)!;
  const bytes = row.slice(field.offset, field.offset + field.bytes);
  if (field.mask !== undefined)
    return Array.from({ length: field.mask }, (_, i) => (bytes[i >> 3]! >> (i & 7)) & 1);
  return field.dtype === 'float32' ? [...new Float32Array(bytes.buffer)] : [...bytes];
}

/** Checks each row's masks against its observations. Returns the number of rows. */
function checkRows(buffer: ReplayBuffer): number {
  const count = Math.min(buffer.ptr, buffer.capacity);
  let ends = 0;
  for (let i = 0; i < count; i++) {
    const row = buffer.gather(Uint32Array.of(i), new Uint8Array(buffer.rowBytes));
    const values = (key: string) => valuesOf(buffer, row, key);
    const [obs, nextObs, [action]] = [values('obs'), values('nextObs'), values('actions')];
    const terminated = values('terminated')[0] === 1;
    if (terminated) ends++;
    expect(nextObs, `row ${i}`).to.deep.equal([obs[0], obs[1], obs[2]! + 1, action]);
    const mask = values('actionMask');
    expect(mask, `mask of row ${i}`).to.deep.equal([...legalOf(obs)]);
    expect(mask[action!], `action of row ${i}`).to.equal(1);
    expect(values('nextActionMask'), `next mask of row ${i}`).to.deep.equal([
      ...storedMask(nextObs, terminated),
    ]);
  }
  if (count > 200) expect(ends).to.be.above(5);
  return count;
}

/** Checks each transition's masks. The rows of a lane are those of one environment. */
function checkTransitions(buffer: TrajectoryBuffer<never>, count: number): void {
  const view = buffer.transitions({ gamma: 0.5 });
  const batch = buffer.sample({ view, seed: 3, count }) as never as Record<string, Float32Array>;
  const of = (key: string, i: number, n: number) => [...batch[key]!.subarray(n * i, n * i + n)];
  let ends = 0;
  for (let i = 0; i < count; i++) {
    const [obs, nextObs] = [of('obs', i, 4), of('nextObs', i, 4)];
    const terminated = batch.discounts![i] === 0;
    if (terminated) ends++;
    expect(nextObs).to.deep.equal([obs[0], obs[1], obs[2]! + 1, batch.actions![i]]);
    expect(of('actionMask', i, ACTIONS)).to.deep.equal([...legalOf(obs)]);
    expect(of('nextActionMask', i, ACTIONS)).to.deep.equal([...storedMask(nextObs, terminated)]);
  }
  expect(ends).to.be.above(5);
}

const openPool = (buffer: unknown, options: MaskedOptions, more: object = {}) =>
  CollectorPool.open({
    entry: ENTRY,
    buffer,
    options,
    ...more,
  } as unknown as CollectorPoolOptions);

/** Collects once for these fields. */
async function collected(fields: object, make: () => Masked | Counting, more: object = {}) {
  const context = { ...contextOf({ fields: fields as never }).context, ...more };
  const collector = await vectorCollector<never>({ make })(context as never);
  return (await collector.collect()) as Record<string, Uint8Array>;
}
const field = (dtype: string, shape: number[], more: object = {}) => ({ dtype, shape, ...more });
const obs = field('float32', [4]);

describe('columns of action masks', () => {
  const buffers: [string, () => ReplayBuffer][] = [
    [
      'bits',
      () => ReplayBuffer.create({ capacity: 2048, fields: { ...fields, ...bits } }) as never,
    ],
    [
      'booleans',
      () =>
        ReplayBuffer.create({
          capacity: 2048,
          fields: { ...fields, actionMask: bools, nextActionMask: { ...bools, dtype: 'uint8' } },
        }) as never,
    ],
  ];
  for (const [how, make] of buffers)
    for (const later of [false, true])
      (how === 'bits' && !later ? it : itAll)(
        `are stored with each row as ${how}${later ? ' from asynchronous environments' : ''}`,
        async () => {
          using buffer = make();
          const explore = { randomSteps: 500, hold: 3, epsilon: { to: 0.2, steps: 1500 } };
          const options: MaskedOptions = { later, environments: 4, policy: 'legal', explore };
          await using pool = await openPool(buffer, options, { workers: 2 });
          await until('rows have come', () => buffer.ptr >= 2000);
          await pool.close();
          expect(checkRows(buffer)).to.be.at.least(2000);
        },
      );

  it('are stored by ReplayBuffer.offPolicy({ actionMask })', async () => {
    using buffer = ReplayBuffer.offPolicy({
      capacity: 512,
      obsDim: 4,
      actionDim: 1,
      actionMask: ACTIONS,
    });
    await using pool = await openPool(buffer, { environments: 3 });
    await until('rows have come', () => buffer.ptr >= 200);
    await pool.close();
    for (let i = 0; i < 200; i++) {
      const row = buffer.gather(Uint32Array.of(i), new Uint8Array(buffer.rowBytes));
      const values = (key: string) => valuesOf(buffer as never, row, key);
      expect(values('actionMask')).to.deep.equal([...legalOf(values('obs'))]);
      expect(values('actionMask')[values('actions')[0]!]).to.equal(1);
    }
  });

  it('are those of the current, the next and the final observation of a TrajectoryBuffer', async () => {
    for (const mask of [{ mask: ACTIONS }, bools]) {
      using buffer = TrajectoryBuffer.create({
        capacity: 5 << 10,
        lanes: 5,
        fields: {
          obs: { shape: [4], observation: true },
          actions: { shape: [] },
          actionMask: { ...mask, observation: true },
        },
      });
      await using pool = await openPool(buffer, {}, { workers: 2 });
      await until('steps have come', () => buffer.ptr > 1000);
      await pool.close();
      checkTransitions(buffer as never, 256);
    }
  });

  for (const waits of ['mask', 'policy'] as const) {
    itAll(`stay those of their rows if threads end at a ${waits}`, async () => {
      using buffer = ReplayBuffer.create({ capacity: 4096, fields: { ...fields, ...bits } });
      const words = new Int32Array(new SharedArrayBuffer(12));
      const options: MaskedOptions = { environments: 3, policy: 'legal', waits, words };
      const pool = await openPool(buffer, options, { restart: 3 });
      for (let time = 1; time <= 3; time++) {
        Atomics.store(words, 0, 1);
        await until('it waits', () => Atomics.load(words, 1) === 1);
        const before = buffer.ptr;
        const thread = threadsOf(pool)[0]!;
        await thread.terminate();
        expect(buffer.ptr, 'no part of a step').to.equal(before);
        Atomics.store(words, 1, 0);
        await until(
          'another one collects',
          () => Atomics.load(words, 2) === time + 1 && buffer.ptr > before + 60,
        );
      }
      await pool.close();
      await pool.done;
      checkRows(buffer as never);
    });

    itAll(`stay those of their rows if the pool is closed at a ${waits}`, async () => {
      using buffer = TrajectoryBuffer.create({
        capacity: 3 << 10,
        lanes: 3,
        fields: {
          obs: { shape: [4], observation: true },
          actions: { shape: [] },
          actionMask: { mask: ACTIONS, observation: true },
        },
      });
      const words = new Int32Array(new SharedArrayBuffer(12));
      const pool = await openPool(buffer, { policy: 'legal', waits, words });
      await until('steps have come', () => buffer.ptr > 500);
      Atomics.store(words, 0, 1);
      await until('it waits', () => Atomics.load(words, 1) === 1);
      const closed = pool.close();
      Atomics.store(words, 1, 2);
      Atomics.notify(words, 1);
      await closed;
      await pool.done;
      checkTransitions(buffer as never, 256);
    });
  }

  it('have one byte of 0 or 1 per action', async () => {
    const masks = { actionMask: field('uint32', [2], { mask: ACTIONS }), nextActionMask: bools };
    const rows = await collected({ obs, ...masks }, () => new Masked(3));
    expect(rows.actionMask).to.deep.equal(legalOf([3, 1, 0]));
    expect(rows.nextActionMask).to.deep.equal(legalOf([3, 1, 1]));
  });

  const masks = () => new Masked(0);
  const without = () => new Counting(0, { discrete: ACTIONS });
  const way = 'give them actionMask(), or leave the field out';
  const cases: [string, object, () => Masked | Counting, string][] = [
    [
      'a field for environments without masks',
      { obs, nextActionMask: bools },
      without,
      `the buffer has a field 'nextActionMask', but the environments give no action masks; ${way}`,
    ],
    [
      'a field for environments with a box of actions',
      { obs, actionMask: bools },
      () => new Counting(0),
      `the buffer has a field 'actionMask', but the environments give no action masks; ${way}`,
    ],
    [
      'masks of another number of actions',
      { obs, actionMask: field('uint32', [1], { mask: 32 }) },
      masks,
      "the buffer's actionMask are { mask: 32 }, but the environments have 33 actions; make the field { mask: 33 }",
    ],
    [
      'booleans of another number of actions',
      { obs, actionMask: field('bool', [32]) },
      masks,
      "the buffer's actionMask are bool [32], but the environments have 33 actions; make the field { mask: 33 }",
    ],
    [
      'a field of floats',
      { obs, nextActionMask: field('float32', [33]) },
      masks,
      "the buffer's nextActionMask are float32 [33], but the environments have 33 actions; make the field { mask: 33 }",
    ],
    [
      'words without the number of actions',
      { obs, nextActionMask: field('uint32', [2]) },
      masks,
      "the buffer's nextActionMask are uint32 [2], but the environments have 33 actions; make the field { mask: 33 }",
    ],
    [
      'a field of steps for environments without masks',
      { obs, actions: field('uint8', []), actionMask: bools },
      without,
      `the buffer has a field 'actionMask', but the environments give no action masks; ${way}`,
    ],
    [
      'a field of steps that is no observation',
      {
        obs,
        actions: field('uint8', []),
        actionMask: field('uint32', [2], { mask: ACTIONS, observation: false }),
      },
      masks,
      "the buffer's actionMask must be an observation, because learners use the masks of next states; make the field { mask: 33, observation: true }",
    ],
    [
      'the next masks of steps, which the buffer makes itself',
      { obs, actions: field('uint8', []), nextActionMask: bools },
      masks,
      "environments return the fields obs and actions, and actionMask if they give masks; the buffer has a field 'nextActionMask'",
    ],
  ];
  for (const [name, fields, make, text] of cases)
    it(`reject ${name}`, async () => {
      const ofSteps = name.includes('of steps');
      const more = ofSteps ? { writer: { lanes: 1, firstLane: 0 } } : {};
      const error = await rejection(collected(fields, make, more));
      expect(error).to.be.instanceOf(RangeError);
      expect(error.message).to.equal(text);
    });

  it('cause one MaskWarning if the buffer has none', async () => {
    const heard: string[] = [];
    const hear = ({ name, message }: Error) => void (name === 'MaskWarning' && heard.push(message));
    process.on('warning', hear);
    // Each instance of the module warns once.
    const instances = ['rows', 'steps'].map(
      (kind) => new URL(`../../src/run/environments/columns.js?${kind}`, import.meta.url).href,
    );
    for (const [kind, href] of instances.entries()) {
      const { warnOfMasks } = (await import(href)) as typeof columns;
      for (let time = 0; time < 2; time++) warnOfMasks(kind === 1);
    }
    // A warning is emitted in the next turn.
    await new Promise(setImmediate);
    process.off('warning', hear);
    const text =
      'the environments give action masks, but the buffer stores none, so the learner does not use them: ';
    expect(heard).to.deep.equal([
      `${text}add fields actionMask and nextActionMask of { mask: n }, as ReplayBuffer.offPolicy({ actionMask: n }) does`,
      `${text}add a field actionMask: { mask: n, observation: true }`,
    ]);
    const lacks = async (fields: object, made: Masked | Counting) => {
      const set = new EnvironmentList([made]).play({ nextSeed: () => 1 });
      await set.begin();
      return columns.lacksMasks(fields as never, set);
    };
    expect([
      await lacks({ obs }, masks()),
      await lacks({ obs, nextActionMask: bools }, masks()),
      await lacks({ obs, actionMask: bools }, masks()),
      await lacks({ obs }, without()),
    ]).to.deep.equal([true, false, false, false]);
  });
});

describe('givesMasks()', () => {
  it('asks one environment with discrete actions, whose episode the next play() ends', async () => {
    for (const later of [false, true]) {
      const list = new EnvironmentList([new Masked(0, { later }), new Masked(1, { later })]);
      expect(await givesMasks(list)).to.equal(true);
      const set = list.play({ nextSeed: () => 1 });
      await set.begin();
      expect([...set.obs]).to.deep.equal([0, 2, 0, 0, 1, 1, 0, 0]);
      const made = new Counting(0, { later, discrete: 2 });
      expect(await givesMasks(new EnvironmentList([made]))).to.equal(false);
      expect(made.seeds).to.deep.equal([0]);
      const box = new Counting(0, { later });
      expect(await givesMasks(new EnvironmentList([box]))).to.equal(false);
      expect(box.seeds).to.deep.equal([]);
    }
  });
});
