/**
 * A thread that takes lanes of a trajectory buffer, writes as long as it is told, and ends in every
 * way a thread can.
 */
import { once } from 'node:events';
import { parentPort } from 'node:worker_threads';
import { type SharedTrajectoryBuffer, TrajectoryBuffer } from '../../src/index.ts';
import { givenTask, perform, say } from '../rig/test-thread.ts';

export interface WriterWork {
  shared: SharedTrajectoryBuffer;
  firstLane: number;
  lanes: number;
  /** 'refused' only tries to take the lanes; 'for ever' until it is ended */
  then: 'refused' | 'close' | 'exit' | 'throw' | 'return' | 'for ever';
}

const work = givenTask<WriterWork>();
const buffer = TrajectoryBuffer.attach(work.shared);

await perform(async () => {
  const { firstLane, lanes, then } = work;
  const writer = buffer.writer({ firstLane, lanes });
  const values = new Float32Array(lanes).fill(firstLane + 1);
  const none = new Uint8Array(lanes);
  const add = () => writer.add({ obs: values, rewards: values, terminated: none, truncated: none });
  for (let i = 0; i < 3; i++) add();
  say('has the lanes');
  if (then === 'for ever') for (;;) add();
  // What it has said is heard before it ends.
  await once(parentPort!, 'message');
  if (then === 'exit') process.exit(3);
  if (then === 'throw')
    queueMicrotask(() => {
      throw new Error('on purpose');
    });
  if (then === 'close') writer.close();
  // Else nobody gives the lanes back but the end of this thread.
  return 'done';
});
