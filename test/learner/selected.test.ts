/**
 * Tests values that count 0 and must not affect an update: next observations after a termination or
 * with gamma 0, and rows of weight 0. Also tests Adam steps whose size would be 0 / 0.
 */
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import {
  Adam,
  DqnLearner,
  type DqnOptions,
  type LearnerState,
  SacLearner,
  type SacOptions,
  Td3Learner,
  type Td3Options,
} from '../../src/entries/learner.ts';
import { type Device, openDevice, type Tensor } from '../../src/index.ts';
import { TESTED } from '../rig/tested-device.ts';

const [OBS, ACTIONS, BATCH, ROWS] = [4, 2, 8, 16];
const atoms = { kind: 'categorical', atoms: 7, min: -2, max: 2 } as const;
type Kind =
  | ['dqn', Partial<DqnOptions>]
  | ['sac', Partial<SacOptions>]
  | ['td3', Partial<Td3Options>];
const kinds: Record<string, Kind> = {
  DQN: ['dqn', { double: false }],
  'double DQN, dueling': ['dqn', { double: true, dueling: true }],
  'categorical DQN': ['dqn', { head: atoms }],
  SAC: ['sac', {}],
  'FastSAC, temperature of the next rows': [
    'sac',
    { critic: atoms, layerNorm: true, activation: 'silu' },
  ],
  'SAC with a normalizer, critics apart': ['sac', { normalizer: true, clippedDouble: false }],
  TD3: ['td3', {}],
  FastTD3: ['td3', { critic: atoms, targetActor: false, normalizer: { form: 'deviation' } }],
};

describe('learners: rows and next observations that count 0', () => {
  let device: Device;
  before(() => {
    device = openDevice(TESTED);
  });
  after(() => device.close());
  const open: { close(): void }[] = [];
  afterEach(() => {
    for (const made of open.splice(0).reverse()) made.close();
  });
  const keep = <T extends { close(): void }>(made: T): T => {
    open.push(made);
    return made;
  };

  function make(
    [kind, options]: Kind,
    gamma: number | undefined,
  ): DqnLearner | SacLearner | Td3Learner {
    const common = {
      obsDim: OBS,
      batchSize: BATCH,
      seed: 1,
      ...(gamma !== undefined && { gamma }),
    };
    if (kind === 'dqn')
      return keep(new DqnLearner(device, { ...common, actions: 3, hidden: [7], ...options }));
    const shape = { ...common, actionDim: ACTIONS, actorHidden: [7], criticHidden: [9] };
    return keep(
      kind === 'sac'
        ? new SacLearner(device, { ...shape, ...options })
        : new Td3Learner(device, { ...shape, ...options }),
    );
  }

  interface Given {
    /** value of the row's next observation, or null for the default */
    next(row: number): number | null;
    reward?(row: number): number;
    weights?: boolean;
    ends?: 'pair' | 'terminated' | 'discounts';
    gamma?: number;
  }
  const terminated = (row: number) => row % 4 === 2;

  /**
   * Returns parameters and optimizer state after two updates. `next` gives the next observations of
   * some rows.
   */
  async function updated(
    kind: Kind,
    { next, reward, weights = false, ends = 'pair', gamma = 0.9 }: Given,
  ): Promise<LearnerState> {
    const random = new Random(3);
    const learner = make(kind, ends === 'discounts' ? undefined : gamma);
    const rows = (width: number, value: (row: number) => number) =>
      keep(device.allocate({ shape: [ROWS, width] })).write(
        Float32Array.from({ length: ROWS * width }, (_, i) => value(Math.floor(i / width))),
      );
    const some = () => random.between(-1, 1);
    const flag = (of: (row: number) => boolean) => rows(1, (row) => Number(of(row)));
    const cut = (row: number) => row % 4 === 3;
    const endings: Record<string, Record<string, Tensor<'float32'>>> = {
      pair: { dones: flag((row) => terminated(row) || cut(row)), truncated: flag(cut) },
      terminated: { terminated: flag(terminated) },
      discounts: { discounts: rows(1, (row) => (terminated(row) ? 0 : 0.8)) },
    };
    const batch = {
      obs: rows(OBS, some),
      nextObs: rows(OBS, (row) => next(row) ?? 0.25 * (row % 3) - 0.2),
      actions: kind[0] === 'dqn' ? rows(1, (row) => row % 3) : rows(ACTIONS, some),
      rewards: rows(1, (row) => reward?.(row) ?? 0.1 * row),
      ...endings[ends],
      ...(weights && { weights: rows(1, (row) => Number(row % 3 !== 0)) }),
    };
    const out = keep(device.allocate({ shape: [learner.scalars.length] }));
    learner.update(device.currentStream, batch as never, out);
    learner.update(device.currentStream, batch as never, out);
    return learner.state();
  }
  const values = (state: LearnerState) =>
    Object.fromEntries(
      Object.entries(state)
        .filter(([key]) => !key.endsWith('.options'))
        .map(([key, { data }]) => [key, Array.from(data as Float32Array, Number)]),
    );
  const finite = (state: LearnerState) => {
    for (const [key, all] of Object.entries(values(state)))
      if (key !== 'numbers') expect(all.every(Number.isFinite), `${key} is finite`).to.equal(true);
  };

  for (const [name, kind] of Object.entries(kinds)) {
    /**
     * With a categorical head the whole mass goes to the reward. The probabilities of a finite row
     * sum to 1 only up to rounding, so these states may differ slightly.
     */
    const expectAlike = (odd: LearnerState, plain: LearnerState) => {
      finite(odd);
      const [one, other] = [values(odd), values(plain)];
      if (name.includes('temperature')) return; // it also learns from terminated rows
      if (!/categorical|Fast/.test(name)) expect(one).to.deep.equal(other);
      for (const [key, all] of Object.entries(one))
        all.forEach((value, i) => {
          expect(value, key).to.be.closeTo(other[key]![i]!, 1e-4);
        });
    };
    for (const ends of ['pair', 'terminated', 'discounts'] as const)
      it(`${name}: a non-finite next observation of a terminated row changes no weight (${ends})`, async () => {
        const plain = await updated(kind, { next: () => null, ends });
        for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) {
          const odd = await updated(kind, {
            next: (row) => (terminated(row) ? value : null),
            ends,
          });
          expectAlike(odd, plain);
        }
      });
    it(`${name}: next observations are ignored when gamma is 0`, async () => {
      const odd = await updated(kind, { next: () => Number.NaN, gamma: 0 });
      expectAlike(odd, await updated(kind, { next: () => null, gamma: 0 }));
    });
    it(`${name}: a row of weight 0 adds no loss and no gradient, even if its reward is NaN`, async () => {
      const off = (row: number) => row % 3 === 0;
      const odd = await updated(kind, {
        next: () => null,
        weights: true,
        reward: (row) => (off(row) ? Number.NaN : row),
      });
      finite(odd);
      const plain = await updated(kind, {
        next: () => null,
        weights: true,
        reward: (row) => (off(row) ? 5 : row),
      });
      expect(values(odd)).to.deep.equal(values(plain));
    });
  }

  it('TD3+BC only clones when all critic values are 0', async () => {
    const random = new Random(5);
    const make = (alpha: number) =>
      keep(
        new Td3Learner(device, {
          obsDim: OBS,
          actionDim: ACTIONS,
          batchSize: BATCH,
          actorHidden: [7],
          criticHidden: [9],
          seed: 1,
          actorEvery: 1,
          behaviorCloning: { alpha },
          tau: 0,
          criticOptimizer: { learningRate: 0 },
        }),
      );
    const some = (...shape: number[]) => {
      const made = keep(device.allocate({ shape }));
      return made.write(Float32Array.from({ length: made.size }, () => random.between(-1, 1)));
    };
    const zero = () => keep(device.allocate({ shape: [BATCH] }));
    const batch = {
      obs: some(BATCH, OBS),
      nextObs: some(BATCH, OBS),
      actions: some(BATCH, ACTIONS),
      rewards: zero(),
      dones: zero(),
      truncated: zero(),
    };
    const updated = async (alpha: number) => {
      const learner = make(alpha);
      const state = await learner.state();
      for (const [key, { data }] of Object.entries(state))
        if (/^(critic|target)/i.test(key)) data.fill(0 as never);
      learner.loadState(state);
      const out = keep(device.allocate({ shape: [3] }));
      learner.update(device.currentStream, batch as never, out);
      expect([...(await out.toArray())].every(Number.isFinite), 'all losses are finite').to.equal(
        true,
      );
      const now = await learner.state();
      return Object.entries(now)
        .filter(([key]) => key.startsWith('actor.'))
        .map(([key, { data }]) => [key, [...(data as Float32Array)]]);
    };
    expect(await updated(2.5)).to.deep.equal(await updated(0));
  });

  for (const epsilon of [0, 1e-60])
    it(`Adam with epsilon ${epsilon} keeps a parameter unchanged when its gradient is 0`, async () => {
      using parameters = device.allocate({ shape: [3] }).write(Float32Array.of(1, 2, 3));
      using gradient = device.allocate({ shape: [3] }).write(Float32Array.of(0, 0.5, 0));
      using adam = new Adam(device, parameters, { learningRate: 0.25, epsilon });
      for (let i = 0; i < 3; i++) adam.step(device.currentStream, gradient);
      const [first, second, third] = await parameters.toArray();
      expect([first, third]).to.deep.equal([1, 3]);
      expect(second).to.be.closeTo(2 - 3 * 0.25, 1e-6);
    });
});
