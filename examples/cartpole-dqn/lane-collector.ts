/**
 * Collects the poles' steps in order. Each pole has its own lane of the buffer. The collector runs
 * in a thread of the pool.
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
  /** Returns the state that the pool passes to the collector that resumes from it. */
  state(): unknown {
    return this.#actor.state();
  }

  /**
   * Steps every pole once and returns the steps. The observation that follows is that of the next
   * step, or `finalObs` if the episode ended.
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
