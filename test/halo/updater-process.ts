/**
 * A process that only waits for exchanges. It must stay alive until they are done, and exit
 * afterwards.
 */
import { HaloUpdater } from '../../src/extras/halo/updater.ts';
import { Part, plane } from './plane.ts';

const all = plane(2, 1);
const [a, b] = [new HaloUpdater(all.shared, 0), new HaloUpdater(all.shared, 1)];
a.start(new Part(all, 0).fill(1).quantities);
console.log(await a.wait({ timeoutMs: 50 }));
const waiting = a.wait();
b.start(new Part(all, 1).fill(1).quantities);
console.log(await waiting, await b.wait());
