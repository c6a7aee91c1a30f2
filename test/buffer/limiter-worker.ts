/**
 * A thread of the rate limiter's stress test. It adds rows or takes samples, and parks on its bell
 * whenever the limiter refuses.
 */
import { internalsOfLimiter } from '../../src/store/rate-limiter.ts';
import {
  internalsOfBuffer,
  ReplayBuffer,
  type SharedReplayBuffer,
} from '../../src/store/rows/replay-buffer.ts';
import { givenTask, perform } from '../rig/test-thread.ts';

export interface LimiterWork {
  shared: SharedReplayBuffer;
  stop: SharedArrayBuffer;
  role: 'add' | 'sample';
  rows: number;
  /** how many adds to make. A sampler continues until it is stopped */
  times: number;
}

const work = givenTask<LimiterWork>();
const buffer = ReplayBuffer.attach(work.shared);
const limiter = buffer.limiter!;
const stop = new Int32Array(work.stop);
const adds = work.role === 'add';
const bell = (adds ? internalsOfLimiter(limiter).bells : internalsOfBuffer(buffer).bells).claim()!;
const batch = { x: new Float32Array(work.rows) };

function run(): string {
  let done = 0;
  while (true) {
    const seen = bell.read();
    if (adds ? done === work.times : Atomics.load(stop, 0) === 1) return 'done';
    if (adds ? buffer.add(batch) > 0 : limiter.takeSamples(work.rows)) done++;
    else if (!bell.park(seen, 5000))
      return `lost a wake; ${limiter.waitingFor(16)}; ${limiter.addWaitingFor(work.rows)}`;
  }
}

await perform(run);
