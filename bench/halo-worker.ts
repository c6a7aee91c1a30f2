/**
 * One rank of the benchmark `halo`'s exchange. It makes the requested number of updates and reports
 * the mean microseconds of one.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { HaloUpdater, type SharedHaloExchange } from '../src/entries/halo.ts';

export interface ExchangeTask {
  shared: SharedHaloExchange;
  rank: number;
  elements: number;
  exchanges: number;
}

const { shared, rank, elements, exchanges } = workerData as ExchangeTask;
using updater = new HaloUpdater(shared, rank);
const quantities = [{ data: new Float64Array(elements) }];
for (let i = 0; i < exchanges / 10; i++) updater.updateSync(quantities);
const begin = performance.now();
for (let i = 0; i < exchanges; i++) updater.updateSync(quantities);
parentPort?.postMessage(((performance.now() - begin) * 1000) / exchanges);
