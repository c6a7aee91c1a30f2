/**
 * A learner whose step ends with everything that step_end does, and its training. Tests stop the training
 * in the middle of a cycle of phases, and continue it with another learner.
 */
import {
  adam,
  bootstrap,
  concat,
  copied,
  type DescribedLearner,
  type Expression,
  ensemble,
  learner,
  mse,
  normal,
  parameter,
  polyak,
  sgd,
  squashedGaussian,
} from '../../../src/entries/trace.ts';
import type { Device, Stream, Tensor } from '../../../src/index.ts';
import { ON_HOST } from '../../rig/tested-device.ts';
import { ACTIONS, type Batch, net, OBS, Rig, ROWS } from './rig.ts';

/**
 * Makes a learner like SAC. Its actor steps in every second update, and a copy of the actor changes in every
 * third step of the actor. Critics and actor clip, and the rate of the critics depends on their count. The
 * last phase runs in each update, so that step_end advances the generator after the last draw.
 */
export const cycling = (device: Device): DescribedLearner =>
  learner(device, {
    ...{ name: 'cycle', rows: ROWS, seed: 5 },
    batch: { obs: [OBS], nextObs: [OBS], actions: [ACTIONS], rewards: [], discounts: [] },
    networks: {
      actor: net(OBS, 2 * ACTIONS),
      critics: ensemble(net(OBS + ACTIONS, 1), 2),
      targets: polyak('critics', 0.05),
      slow: copied('actor', { every: 3 }),
    },
    parameters: { logAlpha: parameter({ initial: -2 }) },
    optimizers: {
      critics: adam({
        learningRate: (step) => step.mul(-1e-4).add(3e-3) as Expression,
        maxGradNorm: 0.1,
      }),
      actor: adam({ learningRate: 3e-3, maxGradNorm: 0.1 }),
      logAlpha: sgd({ learningRate: 1e-2, momentum: 0.9 }),
    },
    update({ actor, critics, targets, slow }, batch, { logAlpha }) {
      const { obs, nextObs, actions, rewards, discounts } = batch;
      const draw = () => normal([ROWS, ACTIONS]);
      const alpha = logAlpha.exp().detach();
      const least = (q: Expression) => q.min({ axis: 0 }).reshape([ROWS]) as Expression;
      const next = squashedGaussian(slow(nextObs), draw());
      const value = least(targets(concat(1, nextObs, next.action)) as Expression);
      const goal = bootstrap(rewards, discounts, value.sub(next.logProb.mul(alpha))).detach();
      const q = critics(concat(1, obs, actions)).reshape([2, ROWS]);
      const criticLoss = mse(q.sub(goal)).mean({ axis: 1 }).sum();
      const now = squashedGaussian(actor(obs), draw());
      const chosen = least(critics(concat(1, obs, now.action)) as Expression);
      const actorLoss = now.logProb.mul(alpha).sub(chosen).mean();
      const again = squashedGaussian(actor(obs), draw());
      const surplus = again.logProb.mean().sub(ACTIONS).detach();
      const temperatureLoss = logAlpha.exp().mul(surplus).neg();
      return [
        { minimize: { critics: criticLoss }, scalars: { criticLoss, meanQ: q.mean() } },
        { minimize: { actor: actorLoss }, scalars: { actorLoss }, every: 2 },
        {
          minimize: { logAlpha: temperatureLoss },
          scalars: { temperatureLoss, entropy: again.logProb.mean().neg() },
        },
      ];
    },
  });

/**
 * How a training runs its updates: `eager` enqueues their kernels, `graph` launches a captured graph of one
 * update, and `cycles` launches a captured graph of two updates, which are a whole cycle of phases.
 */
export type Mode = 'eager' | 'graph' | 'cycles';
/** The CPU device alone decides in a graph of one update whether a phase runs. */
export const modes: readonly Mode[] = ON_HOST ? ['eager', 'graph', 'cycles'] : ['eager', 'cycles'];

/** Bits of a training as text: the state at its end, by name, and the scalars of each report. */
export interface Trained {
  readonly state: Readonly<Record<string, readonly string[]>>;
  readonly reports: readonly (readonly string[])[];
}
type State = Awaited<ReturnType<DescribedLearner['state']>>;

interface Hooks {
  /** loads a state before the first update */
  begin?(learner: DescribedLearner): Promise<void>;
  /** called after each update or cycle, with the number of updates that are done */
  after?(updates: number, learner: DescribedLearner): Promise<void>;
}

/** Returns numbers as text, which also has the sign of 0. */
const texts = (data: ArrayLike<unknown>): string[] =>
  Array.from(data, (x) => (Object.is(x, -0) ? '-0' : String(x)));
export const textsOf = (state: State): Trained['state'] =>
  Object.fromEntries(Object.entries(state).map(([name, { data }]) => [name, texts(data)]));

/** A learner on a device of its own, and an input and output that keep their place. */
export class Cycle {
  readonly rig = new Rig();
  readonly learner = this.rig.keep(cycling(this.rig.device));
  /** rows of two updates */
  readonly #both: Batch = this.rig.batch(2 * ROWS, 'numbers');
  readonly #parts = [0, 1].map((k) => this.rig.part(this.#both, k)) as [Batch, Batch];
  readonly out: Tensor<'float32'> = this.rig.zeros(this.learner.scalars.length);

  /** Writes the batch of an update, which is the first or the second one of a graph. */
  feed(update: number, k: 0 | 1 = 0): void {
    const batch = this.rig.batch(ROWS, 'numbers', update);
    for (const [name, tensor] of Object.entries(this.#parts[k]))
      this.rig.stream.copy(tensor, batch[name]!);
  }
  /** Enqueues an update, or both updates of a cycle. */
  update(stream: Stream = this.rig.stream, mode: Mode = 'eager'): void {
    this.learner.update(stream, mode === 'cycles' ? this.#both : this.#parts[0], this.out);
  }
  /** Returns a function that feeds and runs an update, or a cycle, and returns the number of the next one. */
  runs(mode: Mode): (update: number) => number {
    if (mode === 'eager')
      return (update) => {
        this.feed(update);
        this.update();
        return update + 1;
      };
    const replay = this.rig.captured((stream) => this.update(stream, mode));
    return (update) => {
      this.feed(update);
      if (mode === 'cycles') this.feed(update + 1, 1);
      replay();
      return update + (mode === 'cycles' ? 2 : 1);
    };
  }
  close(): void {
    this.rig.close();
  }
}

/** Returns the counters of a state after some updates, and the seed and offset of the generator. */
export function countersAfter(updates: number): Record<string, readonly string[]> {
  const actor = Math.ceil(updates / 2);
  return {
    updates: [String(updates)],
    'optimizers.critics.steps': [String(updates)],
    'optimizers.actor.steps': [String(actor)],
    'optimizers.logAlpha.steps': [String(updates)],
    generator: ['5', String(BLOCKS * (2 * updates + actor))],
  };
}
/** Each phase draws once. A draw has 24 numbers, which are 6 blocks of the generator. */
export const BLOCKS = (ROWS * ACTIONS) / 4;

/** Trains until the learner has done `updates` updates, each with the batch of its number. */
export async function trained(
  mode: Mode,
  updates: number,
  { begin, after }: Hooks = {},
): Promise<Trained> {
  const cycle = new Cycle();
  try {
    const { learner: own, out } = cycle;
    await own.ready;
    await begin?.(own);
    const run = cycle.runs(mode);
    const reports: string[][] = [];
    let update = (await own.state()).updates?.data[0] as number;
    while (update < updates) {
      update = run(update);
      reports.push(texts(await out.toArray()));
      await after?.(update, own);
    }
    return { state: textsOf(await own.state()), reports };
  } finally {
    cycle.close();
  }
}
