/**
 * Collects the poles' steps as rows, each of which is a whole transition. It runs in a thread of
 * the pool.
 */
import {
  type Collector,
  type CollectorContext,
  defineCollector,
  type OffPolicyRows,
} from '../../src/index.ts';
import { Actor } from './actor.ts';
import { OBS_DIM } from './cartpole.ts';
import type { Settings } from './settings.ts';

export class CartPoleCollector implements Collector<OffPolicyRows> {
  readonly #actor: Actor;
  readonly #rows: Required<
    Pick<OffPolicyRows, 'obs' | 'nextObs' | 'actions' | 'rewards' | 'dones' | 'truncated'>
  >;

  constructor(context: CollectorContext<Settings>) {
    const count = context.options.environments;
    this.#actor = new Actor(context);
    this.#rows = {
      obs: this.#actor.before,
      nextObs: new Float32Array(count * OBS_DIM),
      actions: this.#actor.actions,
      rewards: new Float32Array(count).fill(1),
      dones: new Float32Array(count),
      truncated: new Float32Array(count),
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
   * Steps every pole once and returns the rows. At the end of an episode, nextObs contains its last
   * observation, because the poles are reset after the copy.
   */
  collect(): OffPolicyRows {
    const rows = this.#rows;
    this.#actor.step();
    const { count, obs, terminated, truncated } = this.#actor.poles;
    for (let pole = 0; pole < count; pole++) {
      // UniLab's convention: `dones` is 1 if the episode terminated or was truncated. If
      // `truncated` is 1, the learner still bootstraps.
      const fell = terminated[pole] as number;
      const timeUp = fell === 1 ? 0 : (truncated[pole] as number);
      rows.dones[pole] = fell | timeUp;
      rows.truncated[pole] = timeUp;
    }
    rows.nextObs.set(obs);
    this.#actor.renew();
    return rows;
  }
}

export default defineCollector<Settings>()((context) => new CartPoleCollector(context));
