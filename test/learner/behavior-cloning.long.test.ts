/**
 * Tests TD3+BC: the actor's loss and gradient against float64. If torch is installed, also against
 * torch's derivatives.
 */
import { spawnSync } from 'node:child_process';
import { expect } from 'chai';
import {
  type LearnerState,
  linear,
  Network,
  relu,
  Td3Learner,
  type Td3Options,
} from '../../src/entries/learner.ts';
import { openDevice } from '../../src/index.ts';
import { itAll } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import {
  backward,
  expectClose,
  flat,
  forward,
  type Rows,
  randomRows,
  rounded,
} from './reference.ts';

/** Debian's Python, for which torch exists as a package. */
const PYTHON = '/usr/bin/python3';
const [OBS, ACTIONS, BATCH] = [3, 2, 16];
const shape = {
  obsDim: OBS,
  actionDim: ACTIONS,
  batchSize: BATCH,
  actorHidden: [8, 7],
  criticHidden: [9, 6],
};
const box = { actionLow: [-2, 0], actionHigh: [2, 1] };
/** half widths of the box, and below them its midpoints */
const scale: readonly number[] = [2, 0.5];
const bias: readonly number[] = [0, 0.5];

interface Case {
  alpha: number;
  /**
   * the actor's parameters before its step, the inputs of the step, and the resulting loss and
   * gradient
   */
  actor: Float32Array;
  critic: Float32Array;
  obs: Rows;
  actions: Rows;
  loss: number;
  gradient: Float32Array;
  learner: Pick<Td3Learner, 'actor'> & { critic: Td3Learner['actor'] };
}

/** Applies one update, in which the critics step before the actor. Returns the actor's step. */
async function stepped(options: Partial<Td3Options>, alpha: number): Promise<Case> {
  using device = openDevice(TESTED);
  const stream = device.currentStream;
  using learner = new Td3Learner(device, { ...shape, ...box, actorEvery: 1, seed: 3, ...options });
  const tensor = (rows: Rows, dims: number[]) => device.allocate({ shape: dims }).write(flat(rows));
  const obs = rounded(randomRows(5, BATCH, OBS));
  const actions = rounded(
    randomRows(6, BATCH, ACTIONS).map((row) => row.map((a, j) => a * scale[j]! + bias[j]!)),
  );
  const batch = {
    obs: tensor(obs, [BATCH, OBS]),
    nextObs: tensor(randomRows(7, BATCH, OBS), [BATCH, OBS]),
    actions: tensor(actions, [BATCH, ACTIONS]),
    rewards: tensor(randomRows(8, BATCH, 1), [BATCH]),
    dones: device.allocate({ shape: [BATCH] }),
    truncated: device.allocate({ shape: [BATCH] }),
  };
  const out = device.allocate({ shape: [3] });
  const record = {
    loss: device.allocate({ shape: [1] }),
    gradient: device.allocate({ shape: [learner.parameters.size] }),
  };
  const actor = await learner.parameters.toArray();
  learner.update(stream, batch, out, { record: { 'actor.0': record } });
  const [loss] = await record.loss.toArray();
  const critic = firstCritic(await learner.state());
  expectClose((await out.toArray()).slice(2), [loss as number], 1e-6, 'the scalar');
  const gradient = await record.gradient.toArray();
  for (const each of [...Object.values(batch), out, ...Object.values(record)]) each.close();
  const [h, k] = shape.criticHidden as [number, number];
  const network = new Network([
    linear(OBS + ACTIONS, h),
    relu(),
    linear(h, k),
    relu(),
    linear(k, 1),
  ]);
  return {
    alpha,
    actor,
    critic,
    obs,
    actions,
    loss: loss as number,
    gradient,
    learner: { actor: learner.actor, critic: network },
  };
}

function firstCritic(state: LearnerState): Float32Array {
  const parts = [0, 2, 4].flatMap((i) => [
    state[`critics.0.${i}.weight`]!,
    state[`critics.0.${i}.bias`]!,
  ]);
  return Float32Array.from(parts.flatMap(({ data }) => [...(data as Float32Array)]));
}

/** Computes the actor's loss and gradient in float64. */
function reference({ alpha, actor, critic, obs, actions, learner }: Case): {
  loss: number;
  gradient: number[];
} {
  const passes = forward(learner.actor, actor, obs);
  const pi = passes.at(-1)!.map((row) => row.map((y, j) => y * scale[j]! + bias[j]!));
  const input = obs.map((row, i) => [...row, ...pi[i]!]);
  const through = forward(learner.critic, critic, input);
  const values = through.at(-1)!.map(([q]) => q as number);
  const mean = (list: number[]) => list.reduce((sum, each) => sum + each, 0) / list.length;
  const lambda = alpha / mean(values.map(Math.abs));
  const apart = pi.map((row, i) => row.map((a, j) => a - actions[i]![j]!));
  const { inputGradient } = backward(
    learner.critic,
    critic,
    through,
    values.map(() => [-lambda / BATCH]),
  );
  const dy = apart.map((row, i) =>
    row.map((off, j) => (inputGradient[i]![OBS + j]! + (2 * off) / (BATCH * ACTIONS)) * scale[j]!),
  );
  const { gradient } = backward(learner.actor, actor, passes, dy);
  return { loss: mean(apart.flat().map((off) => off * off)) - lambda * mean(values), gradient };
}

const program = `
import json, sys, torch
from torch.nn.functional import mse_loss
torch.set_default_dtype(torch.float64)
def net(flat, sizes, last):
    at, layers, leaves = 0, [], []
    for i, (n, m) in enumerate(zip(sizes, sizes[1:])):
        w = torch.tensor(flat[at:at + n * m]).reshape(m, n).requires_grad_(); at += n * m
        b = torch.tensor(flat[at:at + m]).requires_grad_(); at += m
        layers.append((w, b)); leaves += [w, b]
    def run(x):
        for i, (w, b) in enumerate(layers):
            x = x @ w.T + b
            x = torch.relu(x) if i < len(layers) - 1 else last(x)
        return x
    return run, leaves
def found(given):
    obs, actions = torch.tensor(given["obs"]), torch.tensor(given["actions"])
    actor, leaves = net(given["actor"], given["sizes"][0], torch.tanh)
    critic, _ = net(given["critic"], given["sizes"][1], lambda x: x)
    pi = actor(obs) * torch.tensor(given["scale"]) + torch.tensor(given["bias"])
    q = critic(torch.cat([obs, pi], 1))
    loss = -given["alpha"] / q.abs().mean().detach() * q.mean() + mse_loss(pi, actions)
    loss.backward()
    return [loss.item(), torch.cat([leaf.grad.flatten() for leaf in leaves]).tolist()]
print(json.dumps([found(given) for given in json.load(sys.stdin)]))
`;

describe('Td3Learner with behaviorCloning', () => {
  const cases: [string, Partial<Td3Options>, number][] = [
    ['the default alpha of 2.5', { behaviorCloning: {} }, 2.5],
    ['alpha 0.4', { behaviorCloning: { alpha: 0.4 } }, 0.4],
    ['alpha 0', { behaviorCloning: { alpha: 0 } }, 0],
  ];
  for (const [name, options, alpha] of cases)
    it(`has the actor loss and gradient of a float64 reference with ${name}`, async () => {
      const found = await stepped(options, alpha);
      const wanted = reference(found);
      expectClose([found.loss], [wanted.loss], 2e-6, 'loss');
      expectClose(found.gradient, wanted.gradient, 2e-6, 'gradient');
    });

  it('has no cloning term when behaviorCloning is omitted', async () => {
    const found = await stepped({}, 1);
    expect(Math.abs(found.loss - reference(found).loss)).to.be.greaterThan(0.01);
  });

  itAll('has the actor loss and gradient that torch computes', async function () {
    if (spawnSync(PYTHON, ['-c', 'import torch']).status !== 0) {
      console.log(`      left out: ${PYTHON} has no torch (apt-get install python3-torch)`);
      this.skip();
    }
    const done: Case[] = [];
    for (const [, options, alpha] of cases) done.push(await stepped(options, alpha));
    const sizes = [
      [OBS, ...shape.actorHidden, ACTIONS],
      [OBS + ACTIONS, ...shape.criticHidden, 1],
    ];
    const given = done.map(({ actor, critic, ...each }) => {
      return { ...each, sizes, scale, bias, actor: [...actor], critic: [...critic] };
    });
    const { status, stdout, stderr } = spawnSync(PYTHON, ['-c', program], {
      input: JSON.stringify(given),
      encoding: 'utf8',
    });
    expect(status, stderr).to.equal(0);
    const wanted = JSON.parse(stdout) as [number, number[]][];
    done.forEach(({ loss, gradient }, i) => {
      const [value, slopes] = wanted[i]!;
      expectClose([loss], [value], 2e-6, 'loss');
      expectClose(gradient, slopes, 2e-6, 'gradient');
    });
  });
});
