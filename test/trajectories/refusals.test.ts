/**
 * Tests invalid arguments of trajectory buffers. Each error has a code and names the rule and the
 * values. Buffer, lanes and priorities must be unchanged.
 */
import { expect } from 'chai';
import { hindsight, prioritized, TrajectoryBuffer } from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { fields, History } from './history.ts';
import { refused } from './refused.ts';

describe('TrajectoryBuffer with invalid arguments', () => {
  const obs = { shape: [2], observation: true } as const;
  const history = new History(1, 2, 12, 0.1);
  for (let i = 0; i < 60; i++) history.add();
  history.abandon();
  const { buffer } = history;
  const view = buffer.transitions({ nStep: 2 });
  const sampler = prioritized({ alpha: 1 });
  buffer.sample({ view, seed: 1, count: 4, sampler });
  const ids = [...buffer.drawableIds(view)];
  const state = () => {
    const { leaves, total, maxPriority } = sampler.inspect();
    const read = buffer.read(history.places());
    return {
      read,
      leaves,
      total,
      maxPriority,
      ptr: buffer.ptr,
      size: buffer.size,
      ids: buffer.drawableIds(view),
    };
  };
  let before: ReturnType<typeof state>;
  beforeEach(() => {
    before = state();
  });
  afterEach(() => expect(state()).to.deep.equal(before));
  after(() => history.close());

  it('transitions(), windows() and hindsight() throw for invalid options', () => {
    const transitions = (options: unknown) => () => buffer.transitions(options as never);
    const windows = (options: unknown) => () => buffer.windows(options as never);
    const goals = (options: object) => () =>
      buffer.transitions({
        relabel: hindsight({ goal: 'goal', achieved: 'reached', ...options } as never),
      });
    refused([
      [
        'steps that have no room',
        transitions({ nStep: 12 }),
        'RangeError',
        'nStep 12 and the observation after it need 13',
      ],
      ['no step', transitions({ nStep: 0 }), 'RangeError', 'nStep must be'],
      ['half a step', transitions({ nStep: 1.5 }), 'RangeError', 'got 1.5'],
      [
        'frames without room',
        transitions({ nStep: 8, stack: { obs: 5 } }),
        'RangeError',
        '4 frames before',
      ],
      [
        'gamma above 1',
        transitions({ gamma: 1.01 }),
        'RangeError',
        'gamma must be from 0 to 1, got 1.01',
      ],
      ['gamma below 0', transitions({ gamma: -0.5 }), 'RangeError', 'got -0.5'],
      ['gamma that is none', transitions({ gamma: Number.NaN }), 'RangeError', 'got NaN'],
      [
        'gamma as text',
        transitions({ gamma: '1' }),
        'TypeError',
        "gamma must be a number, got '1'",
      ],
      [
        'a stack of no observation',
        transitions({ stack: { actions: 2 } }),
        'RangeError',
        'stack.actions: only observ',
      ],
      ['a stack of nothing', transitions({ stack: { valueOf: 2 } }), 'RangeError', 'stack.valueOf'],
      ['no frame', transitions({ stack: { obs: 0 } }), 'RangeError', 'stack.obs must be'],
      [
        'frames as text',
        transitions({ stack: { obs: '4' } }),
        'TypeError',
        'stack.obs must be a number',
      ],
      ['a stack that is none', transitions({ stack: 4 }), 'TypeError', 'stack must be an object'],
      [
        'padding that is none',
        transitions({ pad: 'none' }),
        'TypeError',
        "pad must be 'repeat' or 'zero', got 'none'",
      ],
      [
        'an unknown option',
        transitions({ nstep: 3 }),
        'TypeError',
        "transitions: unknown option 'nstep'",
      ],
      ['no options', transitions(null), 'TypeError', 'transitions takes an options object'],
      ['windows without a length', windows({}), 'TypeError', 'length must be'],
      [
        'windows longer than a lane',
        windows({ length: 8, burnIn: 4 }),
        'RangeError',
        'burnIn 4 + length 8',
      ],
      ['burn-in below 0', windows({ length: 1, burnIn: -1 }), 'RangeError', 'burnIn must be'],
      ['edges that are none', windows({ length: 1, edges: 'head' }), 'TypeError', "got 'head'"],
      [
        'n steps of windows',
        windows({ length: 1, nStep: 2 }),
        'TypeError',
        "windows: unknown option 'nStep'",
      ],
      [
        'goals unlike',
        goals({ goal: 'obs' }),
        'RangeError',
        'obs is float32 [3], reached is float64 [2]',
      ],
      [
        'a goal that is none',
        goals({ goal: 'actions' }),
        'RangeError',
        "'actions' is not an observation",
      ],
      ['no goal', goals({ goal: undefined }), 'TypeError', 'hindsight: goal must name'],
      ['a strategy that is none', goals({ strategy: 'past' }), 'TypeError', "got 'past'"],
      [
        'a ratio above 1',
        goals({ ratio: 1.5 }),
        'RangeError',
        'ratio must be from 0 to 1, got 1.5',
      ],
      ['an unknown option of goals', goals({ k: 4 }), 'TypeError', "hindsight: unknown option 'k'"],
      [
        'a plain relabel',
        transitions({ relabel: { goal: 'goal' } }),
        'TypeError',
        'relabel must be a result of hindsight()',
      ],
      [
        'a stacked goal',
        () =>
          buffer.transitions({
            stack: { goal: 2 },
            relabel: hindsight({ goal: 'goal', achieved: 'reached' }),
          }),
        'RangeError',
        "'goal' cannot be stacked",
      ],
    ]);
  });

  it('sample(), transitionsAt() and read() throw for invalid views, samplers and ids', () => {
    using other = TrajectoryBuffer.create({ capacity: 24, lanes: 2, fields: { obs } });
    using narrow = TrajectoryBuffer.create({ capacity: 16, lanes: 2, fields });
    const strange = other.transitions();
    const sample = (options: object) => () =>
      buffer.sample({ view, seed: 1, count: 1, ...options } as never);
    const at = (options: object) => () => buffer.transitionsAt({ view, ids, ...options } as never);
    const goal = buffer.transitions({ relabel: hindsight({ goal: 'goal', achieved: 'reached' }) });
    refused([
      [
        'a view of other fields',
        sample({ view: strange }),
        'RangeError',
        'other fields or lanes (obs)',
      ],
      ['the ids of one', () => buffer.drawableIds(strange), 'RangeError', 'other fields'],
      ['the count of one', () => buffer.drawable(strange), 'RangeError', 'other fields'],
      [
        'a view of shorter lanes',
        at({ view: narrow.transitions() }),
        'RangeError',
        'other fields or lanes',
      ],
      [
        'a view that is none',
        sample({ view: {} }),
        'TypeError',
        'view must be a result of transitions() or windows()',
      ],
      ['no view', () => buffer.drawable(undefined as never), 'TypeError', 'got undefined'],
      ['no row', sample({ count: 0 }), 'RangeError', 'count must be'],
      ['half a row', sample({ count: 0.5 }), 'RangeError', 'got 0.5'],
      ['a seed below 0', sample({ seed: -1 }), 'RangeError', 'seed'],
      ['no seed', sample({ seed: undefined }), 'TypeError', 'seed'],
      [
        'beta above 1',
        sample({ sampler, beta: 1.5 }),
        'RangeError',
        'beta must be from 0 to 1, got 1.5',
      ],
      ['beta that is none', sample({ sampler, beta: Number.NaN }), 'RangeError', 'got NaN'],
      ['beta as text', sample({ sampler, beta: '1' }), 'TypeError', "got '1'"],
      [
        'a sampler that is none',
        sample({ sampler: {} }),
        'TypeError',
        'sampler must be a result of prioritized()',
      ],
      [
        'a second sampler',
        sample({ sampler: prioritized() }),
        'RangeError',
        'has a prioritized sampler already',
      ],
      [
        'its sampler by another view',
        sample({ sampler, view: goal }),
        'RangeError',
        'bound to another view',
      ],
      [
        "another buffer's sampler",
        () => narrow.sample({ view: narrow.transitions(), seed: 1, count: 1, sampler }),
        'RangeError',
        'bound to another buffer',
      ],
      ['an unknown option', sample({ cuont: 1 }), 'TypeError', "sample: unknown option 'cuont'"],
      ['one of chosen steps', at({ seed: 1 }), 'TypeError', "transitionsAt: unknown option 'seed'"],
      [
        'goals without hindsight',
        at({ goalIds: ids }),
        'RangeError',
        'goalIds need a view with hindsight',
      ],
      [
        'too few goals',
        at({ view: goal, ids: [], goalIds: [1] }),
        'RangeError',
        'goalIds must be as many as ids, 0, got 1',
      ],
      ['a goal below -1', at({ view: goal, ids: [], goalIds: [-2] }), 'RangeError', 'goalIds[0]'],
      [
        'ids of another kind',
        at({ ids: new Uint32Array(1) }),
        'TypeError',
        'got a Uint32Array of 1',
      ],
      [
        'an id that never was',
        at({ ids: [...ids, 9999] }),
        'RangeError',
        `ids[${ids.length}] = 9999 is not drawable`,
      ],
      [
        'one that is overwritten',
        at({ ids: [0] }),
        'RangeError',
        'place 0 of lane 0 was overwritten',
      ],
      ['one below 0', at({ ids: [-1] }), 'RangeError', 'ids[0]'],
      ['one that is no number', at({ ids: ['1'] }), 'TypeError', 'ids[0] must be a number'],
      [
        'one that is read',
        () => buffer.read([ids[0]!, 9999]),
        'RangeError',
        'ids[1] = 9999 does not exist',
      ],
      ['one that is read and gone', () => buffer.read([1]), 'RangeError', 'place 0 of lane 1'],
      ['one beyond numbers', () => buffer.read([2 ** 53]), 'RangeError', 'ids[0]'],
    ]);
    const full = refusal(sample({ count: 2 ** 32 - 1 }));
    expect([full.name, full.code]).to.deep.equal(['RangeError', 'ERR_HOTSLOT_MEMORY']);
    expect(full.message).to.match(/a batch of 4294967295 rows needs \d{12} bytes/);
    // A batch that was rejected for its size does not affect the next one.
    expect(buffer.sample({ view, seed: 1, count: 3 }).ids).to.have.length(3);
    expect(
      refusal(() =>
        buffer.sample({ view: buffer.windows({ length: 11, edges: 'full' }), seed: 1, count: 1 }),
      ).code,
    ).to.equal('ERR_HOTSLOT_STATE_EMPTY');
  });

  it('transitionsAt() throws for goalIds outside of the later steps of the episode', () => {
    const goal = buffer.transitions({ relabel: hindsight({ goal: 'goal', achieved: 'reached' }) });
    const [id] = buffer.drawableIds(goal) as unknown as [number];
    const { episode, index } = history.at(id);
    const wrong = [
      history.idOf(episode, episode.steps.length),
      id + 1,
      99_999,
      ...(index > 0 ? [history.idOf(episode, index - 1)] : []),
    ];
    for (const each of wrong)
      refused([
        [
          `goal ${each}`,
          () => buffer.transitionsAt({ view: goal, ids: [id], goalIds: [each] }),
          'RangeError',
          `ids[0] = ${id} with goal ${each}`,
        ],
      ]);
  });

  it('updatePriorities() throws for invalid priorities and ids', () => {
    const update = (given: unknown, priorities: unknown) => () =>
      buffer.updatePriorities(given as never, priorities as never);
    const two = ids.slice(0, 2);
    refused([
      ['too few', update(two, [1]), 'RangeError', 'priorities must be as many as ids, 2, got 1'],
      [
        'NaN',
        update(two, [9, Number.NaN]),
        'RangeError',
        'priorities[1] must be finite and at least 0, got NaN',
      ],
      [
        'infinite',
        update(two, Float32Array.of(9, Number.POSITIVE_INFINITY)),
        'RangeError',
        'got Infinity',
      ],
      ['negative', update(two, Float64Array.of(-1e-300, 9)), 'RangeError', 'priorities[0]'],
      [
        'integers',
        update(two, new Int32Array(2)),
        'TypeError',
        'got an Int32Array of 2'.replace('an Int', 'a Int'),
      ],
      ['no list', update(two, 1), 'TypeError', 'priorities must be'],
      ['ids that are none', update(1, [1]), 'TypeError', 'ids must be'],
      [
        'an id that never was',
        update([ids[0], history.nextId(1)], [9, 9]),
        'RangeError',
        `ids[1] = ${history.nextId(1)} never was`,
      ],
    ]);
  });

  it('prioritized() throws for invalid options', () => {
    const sampling = (options: unknown) => () => prioritized(options as never);
    refused([
      [
        'alpha below 0',
        sampling({ alpha: -1 }),
        'RangeError',
        'alpha must be finite and at least 0, got -1',
      ],
      ['alpha as text', sampling({ alpha: '1' }), 'TypeError', "alpha must be a number, got '1'"],
      ['epsilon that is none', sampling({ epsilon: Number.NaN }), 'RangeError', 'epsilon'],
      ['normalize that is none', sampling({ normalize: 'max' }), 'TypeError', "got 'max'"],
      [
        'an unknown option',
        sampling({ beta: 1 }),
        'TypeError',
        "prioritized: unknown option 'beta'",
      ],
    ]);
  });

  it('methods of the buffer and its writer throw after close()', () => {
    const closed = TrajectoryBuffer.create({ capacity: 8, lanes: 2, fields: { obs } });
    const strange = closed.transitions();
    const writer = closed.writer();
    const step = {
      obs: new Float32Array(4),
      rewards: new Float32Array(2),
      terminated: [false, false],
      truncated: [true, false],
    };
    writer.close();
    writer.close();
    closed.close();
    closed.close();
    for (const call of [
      () => writer.add(step),
      () => closed.size,
      () => closed.ptr,
      () => closed.share(),
      () => closed.writer(),
      () => closed.drawable(strange),
      () => closed.drawableIds(strange),
      () => closed.sample({ view: strange, seed: 1, count: 1 }),
      () => closed.transitionsAt({ view: strange, ids: [] }),
      () => closed.read([]),
      () => closed.updatePriorities([], []),
      () => closed.clear(),
    ])
      expect(refusal(call).code, String(call)).to.equal('ERR_HOTSLOT_STATE_CLOSED');
  });
});
