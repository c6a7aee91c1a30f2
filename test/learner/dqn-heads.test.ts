/**
 * Tests DQN's dueling and categorical heads against float64, captured against eager updates, and
 * policies.
 */
import { expect } from 'chai';
import { DqnLearner, type DqnOptions, type Network } from '../../src/entries/learner.ts';
import { type Device, openDevice, type Stream, type Tensor } from '../../src/index.ts';
import { TESTED } from '../rig/tested-device.ts';
import { columns, randomBatch } from './dqn-reference.ts';
import { outputOf } from './network-reference.ts';
import { expectClose } from './reference.ts';

const [ATOMS, LOW, HIGH, ACTIONS, ROWS] = [5, -1, 2, 3, 8];
const head = { kind: 'categorical', atoms: ATOMS, min: LOW, max: HIGH } as const;
const small: DqnOptions = {
  obsDim: 3,
  actions: ACTIONS,
  hidden: [6],
  batchSize: ROWS,
  gamma: 0.9,
  tau: 0.5,
  learningRate: 0.05,
};
const heads: Record<string, Partial<DqnOptions>> = {
  dueling: { dueling: true },
  categorical: { head },
  'categorical, dueling, chosen by the target': { head, dueling: true, double: false },
};

const gap = (HIGH - LOW) / (ATOMS - 1);
function softmax(logits: readonly number[]): number[] {
  const all = logits.reduce((sum, value) => sum + Math.exp(value), 0);
  return logits.map((value) => Math.exp(value) / all);
}
const mean = (logits: readonly number[]) =>
  softmax(logits).reduce((sum, p, k) => sum + p * (LOW + k * gap), 0);
const best = (values: readonly number[]) => values.indexOf(Math.max(...values));

/** Splits a row of outputs into the parts of each action. */
const parts = (row: readonly number[]) =>
  Array.from({ length: ACTIONS }, (_, a) =>
    row.slice((a * row.length) / ACTIONS, ((a + 1) * row.length) / ACTIONS),
  );

describe('DqnLearner: heads', () => {
  let device: Device;
  let stream: Stream;
  before(() => {
    device = openDevice(TESTED);
    stream = device.currentStream;
  });

  const batch = randomBatch(3, ROWS, 3, ACTIONS);

  /**
   * Returns the loss as a function of the online network's parameters. The targets are constants.
   */
  function lossOf(network: Network, options: DqnOptions, first: ArrayLike<number>) {
    const categorical = options.head !== undefined;
    const worth = (part: readonly number[]) => (categorical ? mean(part) : (part[0] as number));
    // The target network begins with the parameters of the online network.
    const next = outputOf(network, first, batch.nextObs).map(parts);
    const goals = next.map((actions, i) => {
      const chosen = actions[best(actions.map(worth))] as number[];
      const counts =
        batch.dones[i] === 1 && batch.truncated[i] === 0 ? 0 : (options.gamma as number);
      if (!categorical) return [batch.rewards[i]! + counts * chosen[0]!];
      const goal = new Array<number>(ATOMS).fill(0);
      softmax(chosen).forEach((p, k) => {
        const z = Math.min(Math.max(batch.rewards[i]! + counts * (LOW + k * gap), LOW), HIGH);
        const place = (z - LOW) / gap;
        const left = Math.min(Math.floor(place), ATOMS - 2);
        goal[left]! += p * (1 - (place - left));
        goal[left + 1]! += p * (place - left);
      });
      return goal;
    });
    const losses = (parameters: ArrayLike<number>) =>
      outputOf(network, parameters, batch.obs).map((row, i) => {
        const part = parts(row)[batch.actions[i]!]!;
        const goal = goals[i]!;
        if (categorical)
          return softmax(part).reduce((sum, p, k) => sum - goal[k]! * Math.log(p), 0);
        const off = Math.abs(part[0]! - goal[0]!);
        return off <= 1 ? off ** 2 / 2 : off - 0.5;
      });
    return {
      losses,
      loss: (parameters: ArrayLike<number>) => losses(parameters).reduce((a, b) => a + b, 0) / ROWS,
    };
  }

  for (const [name, variant] of Object.entries(heads)) {
    it(`${name}: loss, gradient and priorities agree with float64`, async () => {
      const options = { ...small, ...variant };
      using learner = new DqnLearner(device, options);
      const { packed, tensors } = columns(device, stream, batch);
      using memory = packed;
      const { network } = learner;
      using out = device.allocate({ shape: [2] });
      using gradient = device.allocate({ shape: [network.parameterCount] });
      using loss = device.allocate({ shape: [1] });
      using priorities = device.allocate({ shape: [ROWS] });
      const first = await learner.parameters.toArray();
      learner.update(stream, tensors, out, { priorities, record: { q: { gradient, loss } } });
      const wanted = lossOf(network, options, first);
      expectClose(await loss.toArray(), [wanted.loss(first)], 1e-5, 'loss');
      expectClose(await out.view({ shape: [1] }).toArray(), [wanted.loss(first)], 1e-5, 'out');
      const own = Float64Array.from(first);
      const h = 1e-5;
      const slopes = [...own].map((value, i) => {
        const at = (by: number) => {
          own[i] = value + by;
          const found = wanted.loss(own);
          own[i] = value;
          return found;
        };
        return (at(h) - at(-h)) / (2 * h);
      });
      expectClose(await gradient.toArray(), slopes, 2e-5, 'gradient');
      if (options.head)
        expectClose(await priorities.toArray(), wanted.losses(first), 1e-5, 'priorities');
      expect(memory.closed).to.equal(false);
    });

    it(`${name}: launching a captured update equals eager updates to the bit, and policy() acts greedily`, async () => {
      using eager = new DqnLearner(device, { ...small, ...variant });
      using captured = new DqnLearner(device, { ...small, ...variant });
      const { packed, tensors } = columns(device, stream, batch);
      using out = device.allocate({ shape: [2] });
      await captured.ready;
      await stream.synchronize();
      stream.beginCapture();
      captured.update(stream, tensors, out);
      using graph = stream.endCapture();
      using exec = graph.instantiate();
      for (let i = 0; i < 5; i++) {
        eager.update(stream, tensors, out);
        stream.replay(exec);
      }
      const bits = async (of: Tensor<'float32'>) =>
        Buffer.from((await of.toArray()).buffer).toString('hex');
      expect(await bits(captured.parameters)).to.equal(await bits(eager.parameters));
      expect(await bits(captured.target)).to.equal(await bits(eager.target));
      const parameters = await eager.parameters.toArray();
      const rows = outputOf(eager.network, parameters, batch.obs).map(parts);
      const wanted = rows.map((actions) =>
        best(actions.map((part) => (variant.head ? mean(part) : (part[0] as number)))),
      );
      const policy = eager.policy().load(parameters);
      expect([...policy.act(Float32Array.from(batch.obs.flat()), ROWS)]).to.deep.equal(wanted);
      packed.close();
    });
  }

  it('an action out of range has a NaN priority and leaves the parameters finite', async () => {
    using learner = new DqnLearner(device, { ...small, head });
    const { packed, tensors } = columns(device, stream, {
      ...batch,
      actions: batch.actions.map((a, i) => (i === 2 ? 7 : a)),
    });
    using out = device.allocate({ shape: [2] });
    using priorities = device.allocate({ shape: [ROWS] });
    learner.update(stream, tensors, out, { priorities });
    const off = await priorities.toArray();
    expect([...off].map(Number.isNaN)).to.deep.equal(batch.actions.map((_, i) => i === 2));
    expect((await learner.parameters.toArray()).every(Number.isFinite)).to.equal(true);
    packed.close();
  });
});
