/**
 * Twin delayed deterministic policy gradient (Fujimoto et al., 2018) on a device, as a traced
 * learner, with scalar or distributional critics.
 */

import { checkFlag, checkKeys } from '../../base/checks.ts';
import { withPresentNames } from '../../base/old-names.ts';
import type { Device } from '../../device/device.ts';
import { checkWithin } from '../checks.ts';
import { tanh } from '../network/layers.ts';
import { networkParts } from '../state.ts';
import { type Expression, where } from '../trace/expression.ts';
import { constant, normal } from '../trace/functions.ts';
import { polyak } from '../trace/learner/networks.ts';
import { ActorCritic, type Algorithm, addParts, type Parts, programOf } from './actor-critic.ts';
import {
  type ActorCriticOptions,
  actorCriticKeys,
  actorKeys,
  actorNetwork,
  actorOf,
} from './options.ts';
import { Td3Policy, type Td3PolicyOptions } from './policies.ts';
import { boxOf } from './squashed-gaussian.ts';

export interface Td3Options extends ActorCriticOptions {
  /** standard deviation of the noise on next actions, in half widths of the box, default 0.2 */
  policyNoise?: number;
  /** largest absolute value of that noise, in half widths of the box, default 0.5 */
  noiseClip?: number;
  /**
   * whether a target actor, which follows the actor slowly, chooses the next actions. If false, the
   * actor chooses them (FastTD3). Default true
   */
  targetActor?: boolean;
  /**
   * options of TD3+BC (Fujimoto and Gu, 2021) for learning from a fixed data set, default: off
   *
   * The actor's loss is `mean((π(s) − a)²) − λ · mean(Q(s, π(s)))`. Here λ is
   * `alpha / mean(|Q(s, π(s))|)` of the minibatch, or 0 if all of these values are 0. No gradient
   * flows through λ. Actions have the units of the batch. `alpha` is 2.5 by default. With 0, the
   * actor only imitates the batch's actions
   */
  behaviorCloning?: { alpha?: number };
  /** @deprecated Use `behaviorCloning`. This name is removed in 0.5. */
  behaviourCloning?: { alpha?: number };
}

const keys = [...actorCriticKeys, 'policyNoise', 'noiseClip', 'targetActor', 'behaviorCloning'];

function cloningAlpha(options: Td3Options['behaviorCloning']): number | undefined {
  if (options === undefined) return undefined;
  checkKeys('behaviorCloning', options, ['alpha']);
  return checkWithin('behaviorCloning.alpha', options.alpha ?? 2.5, 0, 1e30);
}

const scalars = ['criticLoss', 'meanQ', 'actorLoss'] as const;

/**
 * Trains a twin delayed DDPG (TD3, Fujimoto et al., 2018) by updates that a pipeline captures once.
 * @example
 * const learner = new Td3Learner(device, { obsDim: 17, actionDim: 6, batchSize: 256 });
 * await learner.ready;
 * pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out), {
 *   scalars: learner.scalars,
 *   weights: learner.published,
 * });
 */
export class Td3Learner extends ActorCritic {
  readonly scalars = scalars;
  readonly #options: Td3Options;

  /**
   * Allocates all memory on `device`. Initial values are written on device.currentStream, and
   * `ready` resolves after that.
   *
   * @throws {TypeError|RangeError} for a wrong option
   * @throws {ERR_HOTSLOT_MEMORY} if the device has too little memory
   */
  constructor(device: Device, given: Td3Options) {
    const options = withPresentNames('Td3Learner', given);
    const {
      actionDim,
      batchSize,
      policyNoise = 0.2,
      noiseClip = 0.5,
      targetActor = true,
    } = { ...options };
    checkWithin('policyNoise', policyNoise, 0, 1e30);
    checkWithin('noiseClip', noiseClip, 0, 1e30);
    checkFlag('targetActor', targetActor);
    const alpha = cloningAlpha(options?.behaviorCloning);
    const scalar = (options?.critic?.kind ?? 'scalar') === 'scalar';
    const actorEvery = options?.actorEvery ?? 2;
    super('Td3Learner', device, options, {
      keys,
      actor: (all) => actorNetwork(all, (n) => n, [tanh()]),
      actorValue: (clipped) => (scalar ? 'first' : clipped ? 'min' : 'mean'),
      logFloor: Number.NEGATIVE_INFINITY,
      targetEvery: targetActor ? actorEvery : 1,
      actorEvery: 2,
      draws: [{ name: 'next', shape: [batchSize, actionDim] }],
      scalars,
      settings: {
        policyNoise,
        noiseClip,
        targetActor,
        behaviorCloning: alpha === undefined ? null : { alpha },
      },
      ...(targetActor && {
        networks: (tau, every) => ({ targetActor: polyak('actor', tau, { every }) }),
      }),
      phases: (parts) =>
        phasesOf(parts, { ...options, policyNoise, noiseClip, targetActor }, alpha),
    } satisfies Algorithm);
    this.#options = options;
    if (!targetActor) return;
    const program = programOf(this);
    const target = program.flat(program.holder('targetActor'));
    addParts(this, { parts: () => networkParts('targetActor', this.actor, target) });
  }

  /**
   * Returns a policy that loads `published` vectors. It runs on the calling thread and needs no
   * device.
   *
   * @param options `noise` (default 0) and `seed` (default 0)
   * @throws {TypeError|RangeError} for a wrong option
   * @example
   * const policy = learner.policy({ noise: 0.1 }).load(await learner.published.toArray());
   */
  policy(options: Td3PolicyOptions = {}): Td3Policy {
    return new Td3Policy(actorOf(this.#options, actorKeys), options);
  }
}

type Td3How = Td3Options & Required<Pick<Td3Options, 'policyNoise' | 'noiseClip' | 'targetActor'>>;

/** Describes an update: critics and actor. `cloning` is the alpha of TD3+BC. */
function phasesOf(parts: Parts, options: Td3How, cloning: number | undefined) {
  const { networks, obs, nextObs, actions, actorEvery: every } = parts;
  const { actionDim, batchSize, policyNoise, noiseClip, targetActor } = options;
  const { scale, bias, low, high } = boxOf(actionDim, options);
  const row = (values: readonly number[]) => constant(values, [actionDim]) as Expression;
  const inBox = (x: Expression): Expression => x.mul(row(scale)).add(row(bias));
  const actor = networks.actor as (x: Expression) => Expression;
  const chooser = targetActor ? networks.targetActor! : actor;

  const noise = normal([batchSize, actionDim]).mul(policyNoise).clamp(-noiseClip, noiseClip);
  const next = inBox(noise.add(chooser(nextObs)) as Expression);
  const criticPhase = parts.criticPhase(next.max(row(low)).min(row(high)) as Expression);

  const chosen = inBox(actor(obs));
  const value = parts.value(chosen);
  let actorLoss = value.mean().neg() as Expression;
  if (cloning !== undefined) {
    const size = value.abs().mean().detach();
    // With values of 0 throughout, alpha / size is infinite, and λ is 0.
    const factor = where(size.ne(0), constant(cloning).div(size), 0);
    actorLoss = actorLoss.mul(factor).add(chosen.sub(actions).square().mean()) as Expression;
  }
  return [criticPhase, { minimize: { actor: actorLoss }, scalars: { actorLoss }, every }];
}
