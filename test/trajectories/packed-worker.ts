/**
 * A thread that adds steps whose values encode their origin, until the last reader is done. A
 * limiter gates its adds.
 */

import { type SharedTrajectoryBuffer, TrajectoryBuffer } from '../../src/index.ts';
import { internalsOfLimiter } from '../../src/store/rate-limiter.ts';
import { givenTask, perform } from '../rig/test-thread.ts';
import { endAt, type fields, LANES, rewardAt, tell } from './telling.ts';

export interface PackedWork {
  shared: SharedTrajectoryBuffer<ReturnType<typeof fields>>;
  /** as in lane-worker.ts */
  control: SharedArrayBuffer;
  together: number;
  words: number;
}

const work = givenTask<PackedWork>();
const buffer = TrajectoryBuffer.attach(work.shared);
const control = new Int32Array(work.control);
const READY = 0;
const READING = 1;

await perform(() => {
  Atomics.add(control, READY, 1);
  Atomics.notify(control, READY);
  for (
    let ready = Atomics.load(control, READY);
    ready < work.together;
    ready = Atomics.load(control, READY)
  )
    Atomics.wait(control, READY, ready);
  const { words } = work;
  const bell = internalsOfLimiter(buffer.limiter!).bells.claim()!;
  using writer = buffer.writer();
  const [obs, finalObs] = [new Float64Array(LANES * words), new Float64Array(LANES * words)];
  const [id, rewards] = [new Float64Array(LANES), new Float32Array(LANES)];
  const [terminated, truncated, skip] = [
    new Uint8Array(LANES),
    new Uint8Array(LANES),
    new Uint8Array(LANES),
  ];
  const [places, steps] = [new Array<number>(LANES).fill(0), new Array<number>(LANES).fill(0)];
  let written = 0;
  for (let round = 0; Atomics.load(control, READING) > 0; round++) {
    for (let i = 0; i < LANES; i++) {
      skip[i] = (round * 7 + i) % 5 === 0 ? 1 : 0;
      id[i] = places[i]! * LANES + i;
      rewards[i] = rewardAt(places[i]!);
      const end = endAt(id[i]!);
      terminated[i] = end === 'terminated' ? 1 : 0;
      truncated[i] = end === 'truncated' ? 1 : 0;
      tell(obs, i, words, id[i]!, steps[i]!);
      if (end !== 'no') tell(finalObs, i, words, id[i]! + LANES, steps[i]! + 1);
    }
    // Parks until the limiter has room. The thread that makes room continues until this thread is
    // done.
    for (;;) {
      const seen = bell.read();
      if (writer.add({ obs, finalObs, id, rewards, terminated, truncated, skip }) > 0) break;
      bell.park(seen, 1000);
    }
    for (let i = 0; i < LANES; i++) {
      if (skip[i]) continue;
      const ended = terminated[i] || truncated[i];
      places[i]! += ended ? 2 : 1;
      steps[i] = ended ? 0 : steps[i]! + 1;
      written++;
    }
  }
  return written;
});
