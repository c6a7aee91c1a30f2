/** Halo exchanges in which every halo point encodes its origin. */
import {
  type HaloUpdater,
  periodicTopology,
  type SharedHaloExchange,
} from '../../src/entries/halo.ts';
import type { MpiProcess } from '../../src/entries/ranks.ts';

export const N = 4;
/**
 * Shares an exchange. Each rank's neighbors to the east and west are the next ranks. To the north
 * and south it is its own neighbor.
 */
export const share = (mpi: MpiProcess, { ranks = mpi.size, extent = N } = {}): SharedHaloExchange =>
  mpi.shareHaloExchange({
    topology: periodicTopology({ layout: [ranks, 1] }),
    x: [
      {
        nPoints: 1,
        shape: [N + 2, N + 2],
        origin: [1, 1],
        extent: [extent, N],
        dims: ['j', 'i'],
        dtype: 'float64',
      },
    ],
  });
const at = (i: number, j: number) => (j + 1) * (N + 2) + i + 1;
const number = (rank: number, exchange: number, i: number, j: number) =>
  ((rank * 1000 + exchange) * N + j) * N + i;

/** Makes `exchanges` exchanges and checks every halo point. */
export async function exchange(
  updater: HaloUpdater,
  ranks: number,
  exchanges: number,
  { blocking = false } = {},
): Promise<void> {
  const { rank } = updater;
  const data = new Float64Array((N + 2) ** 2);
  for (let k = updater.exchange + 1, end = k + exchanges; k < end; k++) {
    for (let j = 0; j < N; j++) for (let i = 0; i < N; i++) data[at(i, j)] = number(rank, k, i, j);
    updater.start([{ data }]);
    data.fill(-1, at(0, 0), at(0, 0) + 1);
    const timeoutMs = 20_000;
    const there = blocking ? updater.waitSync({ timeoutMs }) : await updater.wait({ timeoutMs });
    if (!there) throw new Error(`rank ${rank} waits for exchange ${k} for ever`);
    for (let j = -1; j <= N; j++) {
      for (const [i, of, there] of [
        [-1, (rank + ranks - 1) % ranks, N - 1],
        [N, (rank + 1) % ranks, 0],
      ] as const) {
        const want = number(of, k, there, (j + N) % N);
        if (data[at(i, j)] !== want)
          throw new Error(
            `rank ${rank}, exchange ${k}, [${i}, ${j}]: ${data[at(i, j)]}, not ${want}`,
          );
      }
    }
  }
}
