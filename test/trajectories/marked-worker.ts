/**
 * A thread that continues from the mark without end. It adds a few numbered steps at a time as
 * packed rows.
 */
import { type SharedTrajectoryBuffer, TrajectoryBuffer } from '../../src/index.ts';
import { givenTask, perform, say } from '../rig/test-thread.ts';
import { numbered } from './packed.ts';

export interface MarkedWork {
  shared: SharedTrajectoryBuffer;
  words: BigUint64Array;
}

const { shared, words } = givenTask<MarkedWork>();

await perform(() => {
  const buffer = TrajectoryBuffer.attach(shared);
  const writer = buffer.writer({ resume: true });
  say('has the lanes');
  for (let steps = 1; ; steps = (steps % 29) + 1) {
    const from = Number(Atomics.load(words, 0));
    const { bytes, rows } = numbered(buffer as never, from, steps);
    writer.addPacked(bytes, rows, { words, index: 0, value: from + steps });
  }
});
