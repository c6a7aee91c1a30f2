/** A rank in a thread of its own, whose waits block. */
import { parentPort, workerData } from 'node:worker_threads';
import { HaloUpdater, type SharedHaloExchange } from '../../src/entries/halo.ts';
import { exchange } from './exchanging.ts';

const { shared, rank, exchanges, stays } = workerData as {
  shared: SharedHaloExchange;
  rank: number;
  exchanges: number;
  stays?: boolean;
};
const updater = new HaloUpdater(shared, rank);
await exchange(updater, shared.ranks, exchanges, { blocking: true });
const done = () => parentPort!.postMessage(updater.exchange);
if (stays) {
  // Ended from outside, its rank open.
  done();
  await new Promise(() => setInterval(() => {}, 1000));
}
updater.close();
done();
