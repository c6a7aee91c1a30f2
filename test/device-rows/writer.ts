/**
 * A thread that adds numbered rows until it is told to stop. It returns how many rows there are
 * then.
 */
import { ReplayBuffer, type SharedReplayBuffer } from '../../src/index.ts';
import { givenTask, perform } from '../rig/test-thread.ts';
import { numbered } from './numbered.ts';

export interface Writing {
  shared: SharedReplayBuffer;
  /** int32: 1 stops the thread */
  control: SharedArrayBuffer;
  from: number;
  rowsPerAdd: number;
}

const { shared, control, from, rowsPerAdd } = givenTask<Writing>();
await perform(() => {
  const buffer = ReplayBuffer.attach(shared) as ReplayBuffer;
  const stop = new Int32Array(control);
  let row = from;
  for (; Atomics.load(stop, 0) === 0; row += rowsPerAdd) buffer.add(numbered(row, rowsPerAdd));
  return row;
});
