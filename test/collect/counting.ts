/** An environment whose observations count its episodes and steps, and collectors of it. */
import type {
  Environment,
  Explore,
  Step,
  VectorCollectorOptions,
} from '../../src/entries/collect.ts';
import { vectorCollector } from '../../src/entries/collect.ts';
import type { CollectorContext } from '../../src/index.ts';

export interface CountingOptions {
  /** whether reset() and step() return promises */
  later?: boolean;
  /** number of discrete actions. If omitted, actions are a box of two values within ±2 */
  discrete?: number;
  environments?: number;
  explore?: Explore;
  dtype?: 'uint8' | 'float32' | 'float64';
}

/**
 * Shows its index, the number of the episode, the step within the episode, and the last action. An
 * episode has 3 + index steps.
 */
export class Counting implements Environment<number | Float32Array> {
  readonly observationSpace;
  readonly actionSpace;
  readonly index: number;
  readonly seeds: number[] = [];
  closed = 0;
  #count = 0;
  #action = 0;
  readonly #later: boolean;

  constructor(index: number, { later = false, discrete, dtype = 'float32' }: CountingOptions = {}) {
    this.index = index;
    this.#later = later;
    this.observationSpace = { shape: [4], dtype } as const;
    this.actionSpace =
      discrete === undefined ? ({ shape: [2], low: -2, high: [2, 2] } as const) : { n: discrete };
  }

  reset(seed: number): number[] | Promise<number[]> {
    this.seeds.push(seed);
    this.#count = this.#action = 0;
    return this.#given(this.#shown());
  }

  step(action: number | Float32Array): Step | Promise<Step> {
    this.#count++;
    this.#action = typeof action === 'number' ? action : action[1]!;
    const over = this.#count === 3 + this.index;
    const odd = this.seeds.length % 2 === 1;
    return this.#given({
      obs: this.#shown(),
      reward: 10 * this.index + this.#count,
      terminated: over && odd,
      truncated: over && !odd,
    });
  }

  close(): void {
    this.closed++;
  }

  #shown(): number[] {
    return [this.index, this.seeds.length, this.#count, this.#action];
  }
  #given<T>(value: T): T | Promise<T> {
    return this.#later ? Promise.resolve(value) : value;
  }
}

/**
 * Creates a collector context without a pool, with an object that records what the collector
 * reports.
 */
export function contextOf(change: Partial<CollectorContext<CountingOptions>> = {}) {
  const told = { steps: 0, episodes: [] as [number, number | undefined][] };
  const report = {
    steps: (count: number) => {
      told.steps += count;
    },
    episode: (value: number, length?: number) => {
      told.episodes.push([value, length]);
    },
  };
  const field = (shape: readonly number[], dtype = 'float32') => ({ dtype, shape }) as never;
  const fields = {
    obs: field([4]),
    nextObs: field([4]),
    actions: field([2]),
    rewards: field([]),
    dones: field([]),
    truncated: field([]),
  };
  const context: CollectorContext<CountingOptions> = {
    worker: 0,
    workers: 1,
    seed: 7,
    restarts: 0,
    stepsBefore: 0,
    options: {},
    writer: null,
    fields,
    report,
    ...change,
  };
  return { told, context };
}

/** Creates a collector of counting environments. Returns it with the environments. */
export async function counting(
  change: Partial<CollectorContext<CountingOptions>> = {},
  options: Partial<VectorCollectorOptions<CountingOptions>> = {},
) {
  const { told, context } = contextOf(change);
  const made: Counting[] = [];
  const factory = vectorCollector<CountingOptions>({
    environments: 2,
    make({ index, options }) {
      const environment = new Counting(index, options);
      made.push(environment);
      return environment;
    },
    ...options,
  });
  return { collector: await factory(context), made, told };
}

/**
 * The default export creates the collector in a pool's worker. The pool's options set the number
 * and kind of environments.
 */
export default (context: CollectorContext<CountingOptions>) => {
  const { environments, explore } = context.options;
  return vectorCollector<CountingOptions>({
    make: ({ index, options }) => new Counting(index, options),
    ...(environments !== undefined && { environments }),
    ...(explore && { explore }),
  })(context);
};
