/**
 * Brings the poles' steps in the order of each pole, which is a lane of its own. Runs in a pool's
 * thread, or inline in lock-step.
 */
import {
  type Collector,
  type CollectorContext,
  defineCollector,
  type Steps,
} from '../../src/index.ts';
import { Actor } from './actor.ts';
import { OBS_DIM } from './cartpole.ts';
import type { Settings } from './settings.ts';

export const fields = {
  obs: { shape: [OBS_DIM], observation: true },
  actions: { shape: [], dtype: 'uint8' },
} as const;

type PoleSteps = Steps<typeof fields>;

export class LaneCollector implements Collector<PoleSteps> {
  readonly #actor: Actor;
  readonly #step: PoleSteps & {
    actions: Uint8Array;
    terminated: Uint8Array;
    truncated: Uint8Array;
  };
  readonly #final: Float32Array;

  constructor(context: CollectorContext<Settings>) {
    const count = context.options.environments;
    this.#actor = new Actor(context);
    this.#final = new Float32Array(count * OBS_DIM);
    this.#step = {
      obs: this.#actor.before,
      finalObs: this.#final,
      actions: new Uint8Array(count),
      rewards: new Float32Array(count).fill(1),
      terminated: new Uint8Array(count),
      truncated: new Uint8Array(count),
    };
  }

  load(weights: Float32Array): void {
    this.#actor.load(weights);
  }
  /** The pool hands it on to the collector that resumes from here. */
  state(): unknown {
    return this.#actor.state();
  }

  /**
   * One step of every pole. What follows an observation is the next step's, or the final one where
   * an episode ended.
   */
  collect(): PoleSteps {
    const step = this.#step;
    this.#actor.step();
    const { obs, terminated, truncated } = this.#actor.poles;
    step.actions.set(this.#actor.actions);
    step.terminated.set(terminated);
    step.truncated.set(truncated);
    this.#final.set(obs);
    this.#actor.renew();
    return step;
  }
}

export default defineCollector<Settings, typeof fields>()((context) => new LaneCollector(context));
