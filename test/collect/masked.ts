/**
 * An environment with illegal actions, and collectors of it. Its observation determines its legal
 * actions, so each row of a buffer can be checked against its mask.
 */
import type {
  ActionMask,
  ActOptions,
  Environment,
  Explore,
  Step,
} from '../../src/entries/collect.ts';
import { vectorCollector } from '../../src/entries/collect.ts';
import type { CollectorContext } from '../../src/index.ts';

/** Number of actions. */
export const ACTIONS = 33;

export interface MaskedOptions {
  /** whether reset() and step() return promises */
  later?: boolean;
  /** the source of the masks, default 'method'. With 'both', only the result has the right one */
  from?: 'method' | 'result' | 'both';
  environments?: number;
  explore?: Explore;
  /** the policy of the default export: legal actions, or the first illegal one. Default: none */
  policy?: 'legal' | 'illegal';
  /** where the collector waits for the test: while it gives a mask, or between mask and step */
  waits?: 'mask' | 'policy';
  /**
   * Int32 words that the test and its collectors share: 1 if a collector shall wait, 1 while it
   * waits, and the number of created collectors
   */
  words?: Int32Array;
}

/** Waits if the test wants it. The test ends the wait by another value of word 1. */
function wait({ words }: MaskedOptions): void {
  if (!words || Atomics.compareExchange(words, 0, 1, 0) !== 1) return;
  Atomics.store(words, 1, 1);
  Atomics.wait(words, 1, 1);
}

/**
 * Returns the legal actions of a state: every third action. The legal actions of the next state are
 * others, so a mask of another step has no legal action at all.
 */
export function legalOf(state: ArrayLike<number>, actions = ACTIONS): Uint8Array {
  const [index, episode, count] = [state[0], state[1], state[2]] as [number, number, number];
  const shift = index + episode + 2 * count;
  return Uint8Array.from({ length: actions }, (_, action) => Number((action + shift) % 3 === 0));
}

/**
 * Returns the mask after an episode's last step. A terminated episode has none, an empty one, one
 * of zeros or a legal one, by the environment's index.
 */
export function lastMask(state: ArrayLike<number>): ActionMask | undefined {
  const index = state[0] as number;
  return [undefined, [], new Array(ACTIONS).fill(false), legalOf(state)][index % 4];
}

/** Returns the stored mask after an action, for a state whose episode terminated or goes on. */
export const storedMask = (state: ArrayLike<number>, terminated: boolean): Uint8Array =>
  terminated && (state[0] as number) % 4 < 3 ? new Uint8Array(ACTIONS) : legalOf(state);

/**
 * Shows its index, the number of the episode, the step within the episode, and the last action. An
 * episode has 3 + index steps. Odd episodes terminate, and even ones are truncated. An illegal
 * action throws.
 */
export class Masked implements Environment<number> {
  readonly observationSpace = { shape: [4] } as const;
  readonly actionSpace = { n: ACTIONS } as const;
  readonly index: number;
  readonly options: MaskedOptions;
  readonly actionMask?: () => ActionMask | undefined;
  /** number of actions that were taken */
  taken = 0;
  closed = 0;
  #episode = 0;
  #count = 0;
  #action = 0;
  #terminated = false;

  constructor(index: number, options: MaskedOptions = {}) {
    this.index = index;
    this.options = options;
    const { from = 'method' } = options;
    if (from === 'method') this.actionMask = () => this.#mask();
    if (from === 'both')
      this.actionMask = () => {
        throw new Error('a mask in a result goes before the method');
      };
  }

  reset(): ReturnType<Environment['reset']> {
    this.#episode++;
    this.#count = this.#action = 0;
    this.#terminated = false;
    return this.#given({ obs: this.#shown(), ...this.#inResult() });
  }

  step(action: number): Step | Promise<Step> {
    if (legalOf(this.#shown())[action] !== 1)
      throw new Error(`environment ${this.index} took the illegal action ${action}`);
    this.taken++;
    this.#count++;
    this.#action = action;
    const over = this.#count === 3 + this.index;
    const odd = this.#episode % 2 === 1;
    this.#terminated = over && odd;
    return this.#given({
      obs: this.#shown(),
      reward: this.#count,
      terminated: over && odd,
      truncated: over && !odd,
      ...this.#inResult(),
    });
  }

  close(): void {
    this.closed++;
  }

  #inResult(): { actionMask?: ActionMask | undefined } {
    const { from = 'method' } = this.options;
    if (from === 'method') return {};
    // A terminated step with 'both' has a mask in its result, because the method throws.
    const mask = this.#mask();
    return { actionMask: from === 'both' ? (mask ?? []) : mask };
  }
  #mask(): ActionMask | undefined {
    if (this.options.waits === 'mask') wait(this.options);
    const state = this.#shown();
    if (this.#terminated) return lastMask(state);
    const mask = legalOf(state);
    return this.#count % 2 === 0 ? mask : Array.from(mask, (legal) => legal === 1);
  }
  #shown(): number[] {
    return [this.index, this.#episode, this.#count, this.#action];
  }
  #given<T>(value: T): T | Promise<T> {
    return this.options.later ? Promise.resolve(value) : value;
  }
}

/** Returns the legal actions of row i. */
export const legalRow = (mask: Uint8Array, i: number, actions = ACTIONS): number[] =>
  Array.from(mask.subarray(i * actions, (i + 1) * actions).entries())
    .filter(([, legal]) => legal === 1)
    .map(([action]) => action);

/**
 * A policy that takes a legal action, another one in each call. It overwrites the mask, as a policy
 * may do.
 */
export function legalPolicy() {
  const policy = {
    calls: 0,
    act(_: Float32Array, n: number, options?: ActOptions) {
      const mask = options?.mask as Uint8Array;
      policy.calls++;
      const actions = Array.from({ length: n }, (_, i) => {
        const legal = legalRow(mask, i);
        return legal[policy.calls % legal.length] ?? -1;
      });
      mask.fill(7);
      return actions;
    },
  };
  return policy;
}

/** A policy that takes an illegal action in its third call. */
export function illegalPolicy() {
  const policy = legalPolicy();
  return {
    act(obs: Float32Array, n: number, options?: ActOptions) {
      const chosen = policy.act(obs, n, options);
      return policy.calls < 3 ? chosen : chosen.map((action) => (action + 1) % ACTIONS);
    },
  };
}

/**
 * The default export creates the collector in a pool's worker. The pool's options set the number
 * and kind of environments.
 */
export default (context: CollectorContext<MaskedOptions>) => {
  const { environments, explore, policy, words } = context.options;
  if (words) Atomics.add(words, 2, 1);
  const acting = () => {
    const made = policy === 'illegal' ? illegalPolicy() : legalPolicy();
    return {
      act(obs: Float32Array, n: number, options?: ActOptions) {
        const chosen = made.act(obs, n, options);
        if (context.options.waits === 'policy') wait(context.options);
        return chosen;
      },
    };
  };
  return vectorCollector<MaskedOptions>({
    make: ({ index, options }) => new Masked(index, options),
    ...(environments !== undefined && { environments }),
    ...(explore && { explore }),
    ...(policy && { policy: acting }),
  })(context);
};
