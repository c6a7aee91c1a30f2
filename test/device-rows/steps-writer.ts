/**
 * A thread that adds numbered steps until it is told to stop. It returns how many steps each lane
 * has then.
 */
import { type SharedTrajectoryBuffer, TrajectoryBuffer } from '../../src/index.ts';
import { givenTask, perform } from '../rig/test-thread.ts';
import { addNumbered, type NumberedBuffer } from './numbered-steps.ts';

export interface StepWriting {
  shared: SharedTrajectoryBuffer;
  /** int32: 1 stops the thread */
  control: SharedArrayBuffer;
  from: number;
}

const { shared, control, from } = givenTask<StepWriting>();
await perform(() => {
  const buffer = TrajectoryBuffer.attach(shared) as unknown as NumberedBuffer;
  const stop = new Int32Array(control);
  using writer = buffer.writer({ resume: true });
  let step = from;
  for (; Atomics.load(stop, 0) === 0; step++) addNumbered(writer, step, 1);
  return step;
});
