/** Learners described with `hotslot/trace` that compute what the built-in ones compute. */

import type { ActorCriticOptions } from '../src/entries/learner.ts';
import { layerNorm, linear, Mlp, Network, relu, silu, tanh } from '../src/entries/learner.ts';
import {
  adam,
  adamW,
  bootstrap,
  categoricalLoss,
  categoricalMean,
  categoricalProject,
  concat,
  type DescribedLearner,
  type Expression,
  ensemble,
  huber,
  learner,
  mse,
  normal,
  parameter,
  polyak,
  squashedGaussian,
  tdLoss,
  tdTarget,
} from '../src/entries/trace.ts';
import type { Device } from '../src/index.ts';

/** Sizes of a learner with an actor and critics. Both have the same hidden layers. */
export interface Sizes {
  readonly obs: number;
  readonly actions: number;
  readonly hidden: readonly number[];
  readonly rows: number;
  /** atoms of a categorical critic */
  readonly atoms?: number;
}

/** Where a learner begins. */
export interface Start {
  readonly seed?: number;
  readonly firstUpdate?: number;
}

/** The same sizes as options of SacLearner and Td3Learner. */
export const optionsOf = ({ obs, actions, hidden, rows }: Sizes): ActorCriticOptions => ({
  obsDim: obs,
  actionDim: actions,
  actorHidden: hidden,
  criticHidden: hidden,
  batchSize: rows,
});

/** Double DQN. With `fused`, tdTarget() and tdLoss() compute the target and the loss. */
export function tracedDqn(device: Device, sizes: Sizes, fused: boolean): DescribedLearner {
  const { obs, actions: count, hidden, rows } = sizes;
  return learner(device, {
    name: 'dqn',
    rows,
    batch: { obs: [obs], nextObs: [obs], actions: 'index', rewards: [], discounts: [] },
    networks: { q: new Mlp({ sizes: [obs, ...hidden, count] }), target: polyak('q', 0.005) },
    optimizers: { q: adam({ learningRate: 1e-3 }) },
    update({ q, target }, { obs, nextObs, actions, rewards, discounts }) {
      const [next, choice] = [target(nextObs), q(nextObs)];
      if (fused) {
        const goal = tdTarget(next, choice, rewards, discounts);
        const { loss, value } = tdLoss(q(obs), actions, goal);
        const mean = loss.mean();
        return { minimize: { q: mean }, scalars: { loss: mean, meanQ: value.mean() } };
      }
      const goal = bootstrap(rewards, discounts, next.pick(choice.argmax()) as Expression).detach();
      const chosen = q(obs).pick(actions) as Expression;
      const loss = huber(chosen.sub(goal)).mean();
      return { minimize: { q: loss }, scalars: { loss, meanQ: chosen.mean() } };
    },
  });
}

const fields = ({ obs, actions }: Sizes) =>
  ({
    obs: [obs],
    nextObs: [obs],
    actions: [actions],
    rewards: [],
    discounts: [],
    weights: [],
  }) as const;

/** Returns a network of linear layers with ReLU, or with layer norms and SiLU. */
function network(sizes: readonly number[], fast: boolean, end: ReturnType<typeof tanh>[] = []) {
  const layers = sizes.slice(1).flatMap((width, i) => {
    const layer = linear(sizes[i]!, width);
    if (i === sizes.length - 2) return [layer];
    return fast ? [layer, layerNorm(width), silu()] : [layer, relu()];
  });
  return new Network([...layers, ...end]);
}

/** TD3, whose actor steps every second time. */
export function tracedTd3(device: Device, sizes: Sizes, start: Start = {}): DescribedLearner {
  const { obs, actions: n, hidden, rows } = sizes;
  return learner(device, {
    name: 'td3',
    rows,
    ...start,
    batch: fields(sizes),
    networks: {
      actor: network([obs, ...hidden, n], false, [tanh()]),
      critics: ensemble(network([obs + n, ...hidden, 1], false), 2),
      targets: polyak('critics', 0.005, { with: 'actor' }),
      targetActor: polyak('actor', 0.005, { with: 'actor' }),
    },
    optimizers: {
      critics: adam({ learningRate: 3e-4 }),
      actor: adam({ learningRate: 3e-4 }),
    },
    update({ actor, critics, targets, targetActor }, batch) {
      const { obs, nextObs, actions, rewards, discounts, weights } = batch;
      const noise = normal([rows, n]).mul(0.2).clamp(-0.5, 0.5);
      const next = targetActor(nextObs).add(noise).clamp(-1, 1);
      const least = targets(concat(1, nextObs, next))
        .min({ axis: 0 })
        .reshape([rows]);
      const goal = bootstrap(rewards, discounts, least).detach();
      const q = critics(concat(1, obs, actions)).reshape([2, rows]);
      const error = q.sub(goal);
      const criticLoss = mse(error).mul(weights).mean({ axis: 1 }).sum();
      const chosen = critics(concat(1, obs, actor(obs)));
      const actorLoss = chosen.slice(0, 0, 1).mean().neg();
      return [
        {
          minimize: { critics: criticLoss },
          scalars: { criticLoss, meanQ: q.mean() },
          priorities: error.abs().mean({ axis: 0 }),
        },
        { minimize: { actor: actorLoss }, scalars: { actorLoss }, every: 2 },
      ];
    },
  });
}

/** SAC with scalar critics, whose temperature learns from new actions after the actor's step. */
export function tracedSac(device: Device, sizes: Sizes, start: Start = {}): DescribedLearner {
  const { obs, actions: n, hidden, rows } = sizes;
  return learner(device, {
    name: 'sac',
    rows,
    ...start,
    batch: fields(sizes),
    networks: {
      actor: network([obs, ...hidden, 2 * n], false),
      critics: ensemble(network([obs + n, ...hidden, 1], false), 2),
      targets: polyak('critics', 0.005),
    },
    parameters: { logAlpha: parameter() },
    optimizers: {
      critics: adam({ learningRate: 3e-4 }),
      actor: adam({ learningRate: 3e-4 }),
      logAlpha: adam({ learningRate: 3e-4 }),
    },
    update({ actor, critics, targets }, batch, { logAlpha }) {
      const { obs, nextObs, actions, rewards, discounts, weights } = batch;
      const draw = () => normal([rows, n]);
      const alpha = logAlpha.exp().detach();
      const next = squashedGaussian(actor(nextObs), draw());
      const least = targets(concat(1, nextObs, next.action))
        .min({ axis: 0 })
        .reshape([rows]);
      const goal = bootstrap(rewards, discounts, least.sub(next.logProb.mul(alpha))).detach();
      const q = critics(concat(1, obs, actions)).reshape([2, rows]);
      const criticLoss = mse(q.sub(goal)).mul(weights).mean({ axis: 1 }).sum();
      const now = squashedGaussian(actor(obs), draw());
      const value = critics(concat(1, obs, now.action))
        .min({ axis: 0 })
        .reshape([rows]);
      const actorLoss = now.logProb.mul(alpha).sub(value).mean();
      const entropy = now.logProb.mean().neg();
      const again = squashedGaussian(actor(obs), draw());
      const surplus = again.logProb.mean().add(-n).detach();
      const temperatureLoss = logAlpha.exp().mul(surplus).neg();
      return [
        { minimize: { critics: criticLoss }, scalars: { criticLoss, meanQ: q.mean() } },
        { minimize: { actor: actorLoss }, scalars: { actorLoss, entropy } },
        { minimize: { logAlpha: temperatureLoss }, scalars: { temperatureLoss } },
        { scalars: { alpha: logAlpha.exp() } },
      ];
    },
  });
}

/** Ends of the atoms of FastSAC's critics. */
export const RANGE = { min: -20, max: 20 } as const;
/** Weight decay of FastSAC's actor and critics. */
export const DECAY = 1e-3;

/**
 * FastSAC: critics with categorical values, whose temperature learns from the next actions before
 * the actor's step. The actor maximizes the mean of both critics' values.
 */
export function tracedFastSac(device: Device, sizes: Sizes): DescribedLearner {
  const { obs, actions: n, hidden, rows, atoms = 101 } = sizes;
  return learner(device, {
    name: 'fast-sac',
    rows,
    batch: fields(sizes),
    networks: {
      actor: network([obs, ...hidden, 2 * n], true),
      critics: ensemble(network([obs + n, ...hidden, atoms], true), 2),
      targets: polyak('critics', 0.005),
    },
    parameters: { logAlpha: parameter() },
    optimizers: {
      critics: adamW({ learningRate: 3e-4, weightDecay: DECAY }),
      logAlpha: adam({ learningRate: 3e-4 }),
      actor: adamW({ learningRate: 3e-4, weightDecay: DECAY }),
    },
    update({ actor, critics, targets }, batch, { logAlpha }) {
      const { obs, nextObs, actions, rewards, discounts, weights } = batch;
      const logits = (x: Expression) => x.reshape([2 * rows, atoms]) as Expression;
      const next = squashedGaussian(actor(nextObs), normal([rows, n]));
      const cost = next.logProb.mul(logAlpha.exp()) as Expression;
      const probs = logits(targets(concat(1, nextObs, next.action)) as Expression).softmax();
      const { projected } = categoricalProject(probs, rewards, discounts, {
        ...RANGE,
        cost,
      });
      const output = logits(critics(concat(1, obs, actions)) as Expression);
      const { loss, value: means } = categoricalLoss(output, projected, {
        ...RANGE,
        logFloor: -30,
        weights,
      });
      const criticLoss = loss.reshape([2, rows]).mean({ axis: 1 }).sum();
      const surplus = next.logProb.mean().add(-n).detach();
      const temperatureLoss = logAlpha.exp().mul(surplus).neg();
      const alpha = logAlpha.exp().detach();
      const now = squashedGaussian(actor(obs), normal([rows, n]));
      const chosen = logits(critics(concat(1, obs, now.action)) as Expression);
      const value = categoricalMean(chosen, RANGE)
        .reshape([2, rows])
        .mean({ axis: 0 })
        .reshape([rows]);
      const actorLoss = now.logProb.mul(alpha).sub(value).mean();
      const entropy = now.logProb.mean().neg();
      return [
        { minimize: { critics: criticLoss }, scalars: { criticLoss, meanQ: means.mean() } },
        { minimize: { logAlpha: temperatureLoss }, scalars: { temperatureLoss } },
        { minimize: { actor: actorLoss }, scalars: { actorLoss, entropy, alpha } },
      ];
    },
  });
}
