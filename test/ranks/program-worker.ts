/** A rank in a worker thread, whose waits block. */
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
  // Waits with its rank open until the test terminates the thread.
  done();
  await new Promise(() => setInterval(() => {}, 1000));
}
updater.close();
done();
