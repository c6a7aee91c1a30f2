/**
 * Learning curves that other projects have published for the same environments and algorithms, each
 * with its source.
 */

/**
 * A point of a curve: environment steps, mean return, and the lower and upper end of its band. The
 * ends are null if no band was published.
 */
export type PublishedPoint = readonly [
  steps: number,
  mean: number,
  low: number | null,
  high: number | null,
];

export interface Published {
  /** the curve's name in the picture */
  who: string;
  source: string;
  points: readonly PublishedPoint[];
}

/** Converts published [steps, mean, standard deviation] to points. */
const deviating = (points: readonly (readonly [number, number, number])[]): PublishedPoint[] =>
  points.map(([steps, mean, by]) => [steps, mean, mean - by, mean + by]);

const ZOO =
  'github.com/DLR-RM/rl-baselines3-zoo at 22e3ff24: benchmark.md, 750 episodes of the trained model';

export const published: Readonly<Record<string, readonly Published[]>> = {
  'HalfCheetah-sac': [
    {
      who: 'CleanRL, HalfCheetah-v2, 3 seeds, exploring',
      source:
        'github.com/vwxyzjn/cleanrl at fe8d8a03: docs/rl-algorithms/sac/HalfCheetah-v2.png, read off by its pixels; the band is one deviation; sac_continuous_action.py, returns of training episodes',
      points: [
        [5_000, -272, null, null],
        [10_000, -177, -244, -109],
        [15_000, 122, null, null],
        [20_000, 465, 272, 652],
        [25_000, 1049, 815, 1290],
        [30_000, 1677, 1433, 1908],
        [35_000, 2214, 1813, 2499],
        [40_000, 2730, 2458, 3029],
        [45_000, 3107, 2655, 3430],
        [50_000, 3457, 3117, 3803],
        [55_000, 3756, 3457, 4095],
        [60_000, 4020, 3756, 4333],
        [65_000, 4224, 3959, 4509],
        [70_000, 4428, 4156, 4733],
        [75_000, 4642, 4333, 4992],
        [80_000, 4812, 4489, 5195],
        [85_000, 4978, 4625, 5392],
        [90_000, 5131, 4747, 5637],
        [95_000, 5284, 4869, 5766],
        [100_000, 5433, 4978, 6031],
      ],
    },
    {
      who: 'Tianshou, HalfCheetah-v3, 10 seeds, greedy',
      source:
        'github.com/thu-ml/tianshou at 22c0b9bd: examples/mujoco/benchmark/HalfCheetah-v3/result.json, ± one deviation; its 10,000 random steps at the beginning are counted here',
      points: deviating([
        [20_000, 865, 487],
        [30_000, 2641, 503],
        [40_000, 3525, 501],
        [50_000, 4327, 213],
        [60_000, 4747, 345],
        [70_000, 5316, 330],
        [80_000, 5587, 540],
        [90_000, 5929, 455],
        [100_000, 6213, 437],
      ]),
    },
  ],
  'Pendulum-sac': [
    {
      who: 'Stable-Baselines3 Zoo, one model, greedy',
      source: `${ZOO}; hyperparams/sac.yml trains 20,000 steps`,
      points: deviating([[20_000, -156.995, 88.714]]),
    },
  ],
  'Pendulum-td3': [
    {
      who: 'Stable-Baselines3 Zoo, one model, greedy',
      source: `${ZOO}; hyperparams/td3.yml trains 20,000 steps`,
      points: deviating([[20_000, -151.855, 90.227]]),
    },
  ],
  'CartPole-dqn': [
    {
      who: 'Stable-Baselines3 Zoo, one model, greedy',
      source: `${ZOO}; hyperparams/dqn.yml trains 50,000 steps`,
      points: deviating([[50_000, 500, 0]]),
    },
  ],
};
