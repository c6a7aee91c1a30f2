/**
 * Measures the microseconds of a halo exchange. It runs as one of two processes of an MPI launcher,
 * or with both ranks in this process (argument `threads`). The second argument is the number of
 * exchanges.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import {
  type HaloExchangeOptions,
  periodicTopology,
  shareHaloExchange,
} from '../src/entries/halo.ts';
import { openMpi } from '../src/entries/ranks.ts';

const [how, exchanges] = [process.argv[2], Number(process.argv[3])];
const [halo, cells, levels] = [3, 54, 79];
const side = cells + 2 * halo;
const options: HaloExchangeOptions = {
  topology: periodicTopology({ layout: [2, 1] }),
  x: [
    {
      nPoints: halo,
      shape: [levels, side, side],
      origin: [0, halo, halo],
      extent: [levels, cells, cells],
      dims: ['k', 'j', 'i'],
      dtype: 'float64',
    },
  ],
};
const mpi = how === 'threads' ? null : await openMpi();
const shared = mpi ? mpi.shareHaloExchange(options) : shareHaloExchange(options);
const times = await Promise.all(
  (mpi ? [mpi.rank] : [0, 1]).map(async (rank) => {
    const workerData = { shared, rank, elements: levels * side * side, exchanges };
    const worker = new Worker(new URL('./halo-worker.js', import.meta.url), { workerData });
    const exit = once(worker, 'exit');
    const [took] = (await once(worker, 'message')) as [number];
    await exit;
    return took;
  }),
);
await mpi?.close();
if (mpi === null || mpi.rank === 0) console.log(String(times[0]));
