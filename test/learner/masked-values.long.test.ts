/**
 * Tests that learners with masks find the values of a game that this file solves itself. The game is
 * Nim: an observation names the number of sticks, and no action takes more of them than there are.
 * Values of illegal actions begin far above all others, so a target that uses one is seen.
 */
import { expect } from 'chai';
import {
  DiscreteSacLearner,
  DqnLearner,
  type Learner,
  QrDqnLearner,
} from '../../src/entries/learner.ts';
import { type Device, openDevice, type Tensor } from '../../src/index.ts';
import { itAll, itShort } from '../rig/setting.ts';

const STICKS = 9;
const ACTIONS = 3;
const GAMMA = 0.9;
/** Initial value of the illegal actions, more than any value of the game. */
const BAIT = 50;

const isLegal = (sticks: number, action: number) => action < sticks;
const legal = (sticks: number) => [0, 1, 2].filter((action) => isLegal(sticks, action));

/** Takes action + 1 sticks. Then the other player takes one. Who takes the last one wins. */
function move(sticks: number, action: number): { reward: number; next: number } {
  const left = sticks - action - 1;
  if (left === 0) return { reward: 1, next: 0 };
  return left === 1 ? { reward: -1, next: 0 } : { reward: 0, next: left - 1 };
}

/** Returns the values of all states and actions. `best` combines the values of legal actions. */
function solved(best: (values: readonly number[]) => number): Map<string, number> {
  const values = new Map<string, number>();
  for (let sticks = 1; sticks <= STICKS; sticks++)
    for (const action of legal(sticks)) {
      const { reward, next } = move(sticks, action);
      const of = legal(next).map((each) => values.get(`${next} ${each}`)!);
      values.set(`${sticks} ${action}`, reward + (next === 0 ? 0 : GAMMA * best(of)));
    }
  return values;
}

const states = Array.from({ length: STICKS }, (_, i) => i + 1);
const pairs = states.flatMap((sticks) => legal(sticks).map((action) => [sticks, action] as const));
const look = (sticks: number) => states.map((each) => Number(each === sticks));
const mask = (sticks: number) => [0, 1, 2].map((action) => Number(isLegal(sticks, action)));

/** Returns a batch with each state and legal action once. Its terminal rows have no next mask. */
function batchOn(device: Device): { rows: number; [field: string]: Tensor | number } {
  const rows = pairs.length;
  const floats = (shape: number[], values: number[]) =>
    device.allocate({ shape: [rows, ...shape] }).write(Float32Array.from(values));
  const words = (masks: number[][]) =>
    device
      .allocate({ shape: [rows, 1], dtype: 'uint32' })
      .write(Uint32Array.from(masks, (bits) => bits.reduce((sum, bit, i) => sum + (bit << i), 0)));
  const moves = pairs.map(([sticks, action]) => move(sticks, action));
  return {
    rows,
    obs: floats(
      [STICKS],
      pairs.flatMap(([sticks]) => look(sticks)),
    ),
    nextObs: floats(
      [STICKS],
      moves.flatMap(({ next }) => look(next)),
    ),
    actions: floats(
      [],
      pairs.map(([, action]) => action),
    ),
    rewards: floats(
      [],
      moves.map(({ reward }) => reward),
    ),
    discounts: floats(
      [],
      moves.map(({ next }) => (next === 0 ? 0 : GAMMA)),
    ),
    actionMask: words(pairs.map(([sticks]) => mask(sticks))),
    nextActionMask: words(moves.map(({ next }) => mask(next))),
  };
}

const common = {
  obsDim: STICKS,
  actions: ACTIONS,
  hidden: [],
  actionMask: true,
  tau: 0.05,
  batchSize: pairs.length,
};
const allObs = Float32Array.from(states.flatMap(look));
const allMasks = Uint8Array.from(states.flatMap(mask));

/** Weights of a linear layer from a state to `width` numbers, `bait` for those of illegal actions. */
function baited(width: number, actionOf: (output: number) => number | null): Float32Array {
  // A weight of torch.nn.Linear is [outputs, inputs], and the bias follows.
  const weights = new Float32Array(width * (STICKS + 1));
  for (let output = 0; output < width; output++) {
    const action = actionOf(output);
    for (const sticks of states)
      if (action !== null && !isLegal(sticks, action)) weights[output * STICKS + sticks - 1] = BAIT;
  }
  return weights;
}

async function train(learner: Learner, device: Device, updates: number): Promise<void> {
  const { rows: _, ...batch } = batchOn(device);
  const out = device.allocate({ shape: [learner.scalars.length] });
  for (let i = 0; i < updates; i++) learner.update(device.currentStream, batch as never, out);
  await device.currentStream.synchronize();
}

/** Compares the values of a policy's legal actions with those of the game. */
function expectValues(
  values: Float32Array,
  best: (values: readonly number[]) => number,
  within: number,
): void {
  const known = solved(best);
  for (const [sticks, action] of pairs) {
    const found = values[(sticks - 1) * ACTIONS + action]!;
    const wanted = known.get(`${sticks} ${action}`)!;
    expect(found, `value of taking ${action + 1} of ${sticks}`).to.be.closeTo(wanted, within);
  }
}

const most = (values: readonly number[]) => Math.max(...values);

describe('values of a game with illegal actions', () => {
  const categorical = { kind: 'categorical', atoms: 21, min: -1, max: 1 } as const;
  const heads = {
    'double DQN': {},
    'DQN with one network for choice and value': { double: false },
    'double DQN with a dueling head': { dueling: true },
    'categorical double DQN': { head: categorical },
    'categorical dueling DQN': { head: categorical, dueling: true, double: false },
  } as const;
  for (const [name, head] of Object.entries(heads))
    ('head' in head ? itAll : itShort)(`${name} finds them`, async () => {
      using device = openDevice('host');
      const options = { ...common, ...head, huberDelta: 0, learningRate: 0.03, seed: 1 };
      using learner = new DqnLearner(device, options);
      await learner.ready;
      const atoms = 'head' in head ? categorical.atoms : 1;
      const first = 'dueling' in head ? 1 : 0;
      const actionOf = (output: number) =>
        output < first * atoms ? null : Math.floor(output / atoms) - first;
      const width = (ACTIONS + first) * atoms;
      // The logits of a categorical head would need a bait of another form: the last atom alone.
      const weights = baited(width, (output) =>
        atoms === 1 || output % atoms === atoms - 1 ? actionOf(output) : null,
      );
      learner.parameters.write(weights);
      learner.target.write(weights);
      await train(learner, device, atoms === 1 ? 2000 : 6000);
      const policy = learner.policy().load(await learner.parameters.toArray());
      const values = policy.values(allObs, STICKS, { mask: allMasks });
      expectValues(values, most, atoms === 1 ? 5e-3 : 0.02);
      const acts = policy.act(allObs, STICKS, { mask: allMasks });
      const known = solved(most);
      for (const sticks of states) {
        const best = most(legal(sticks).map((action) => known.get(`${sticks} ${action}`)!));
        expect(known.get(`${sticks} ${acts[sticks - 1]}`)).to.equal(best);
      }
    });

  itAll('QR-DQN finds them', async () => {
    using device = openDevice('host');
    const quantiles = 5;
    using learner = new QrDqnLearner(device, {
      ...common,
      quantiles,
      learningRate: 0.03,
      seed: 2,
    });
    await learner.ready;
    const weights = baited(ACTIONS * quantiles, (output) => Math.floor(output / quantiles));
    for (const name of ['q', 'target']) learner.weights(name).write(weights);
    await train(learner, device, 4000);
    const policy = learner.policy().load(await learner.published.toArray());
    expectValues(policy.values(allObs, STICKS, { mask: allMasks }), most, 0.05);
  });

  itAll('discrete SAC finds the soft ones', async () => {
    using device = openDevice('host');
    const temperature = 0.2;
    using learner = new DiscreteSacLearner(device, {
      ...common,
      initialTemperature: temperature,
      temperatureOptimizer: { learningRate: 0 },
      criticOptimizer: { learningRate: 0.03 },
      actorOptimizer: { learningRate: 0.03 },
      seed: 3,
    });
    await learner.ready;
    const weights = baited(ACTIONS, (output) => output);
    for (const name of ['critics', 'targets'])
      learner.weights(name).write(Float32Array.of(...weights, ...weights));
    await train(learner, device, 5000);
    const critic = await learner.weights('critics.0').toArray();
    const values = Float32Array.from({ length: STICKS * ACTIONS }, (_, at) => {
      const [state, action] = [Math.floor(at / ACTIONS), at % ACTIONS];
      return critic[action * STICKS + state]! + critic[ACTIONS * STICKS + action]!;
    });
    const soft = (all: readonly number[]) =>
      temperature * Math.log(all.reduce((sum, value) => sum + Math.exp(value / temperature), 0));
    expectValues(values, soft, 0.01);
  });
});
