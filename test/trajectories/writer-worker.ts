/**
 * A thread that claims lanes of a trajectory buffer, writes, and ends in the way that its task
 * says.
 */
import { once } from 'node:events';
import { parentPort } from 'node:worker_threads';
import { type SharedTrajectoryBuffer, TrajectoryBuffer } from '../../src/index.ts';
import { givenTask, perform, say } from '../rig/test-thread.ts';

export interface WriterWork {
  shared: SharedTrajectoryBuffer;
  firstLane: number;
  lanes: number;
  /** 'refused' only tries to claim the lanes. 'for ever' writes until it is terminated */
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
  // Waits until the test has received the message.
  await once(parentPort!, 'message');
  if (then === 'exit') process.exit(3);
  if (then === 'throw')
    queueMicrotask(() => {
      throw new Error('on purpose');
    });
  if (then === 'close') writer.close();
  // In the other cases only the end of this thread releases the lanes.
  return 'done';
});
