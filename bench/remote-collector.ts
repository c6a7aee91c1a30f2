/**
 * A collector for the benchmark: blocks of rows as fast as it is told, each row with the moment it
 * was made.
 */
import { BroadcastChannel, receiveMessageOnPort } from 'node:worker_threads';
import { type CollectorContext, defineCollector } from '../src/index.ts';
import { stampNow } from './remote-clock.ts';

/**
 * Tells all collectors of a process how many bytes a second each is to make; 0: none, Infinity:
 * whatever goes.
 */
export const PACE = 'hotslot bench pace';
/** A block; what is told of times is of its rows. */
const BLOCK_BYTES = 44_032;

export default defineCollector()((context: CollectorContext) => {
  const fields = Object.entries(context.fields).map(
    ([name, { shape }]) => [name, shape.reduce((product, side) => product * side, 1)] as const,
  );
  const floats = fields.reduce((sum, [, width]) => sum + width, 0);
  const rows = Math.max(1, Math.floor(BLOCK_BYTES / (4 * floats)));
  const columns = Object.fromEntries(
    fields.map(([name, width]) => [name, new Float32Array(rows * width)]),
  );
  const stamped = columns.row;
  const told = new BroadcastChannel(PACE);
  // It ends with its thread.
  told.unref();
  const sleep = new Int32Array(new SharedArrayBuffer(4));
  let pace = 0;
  let due = 0;
  return {
    collect() {
      for (
        let said = receiveMessageOnPort(told as never);
        said;
        said = receiveMessageOnPort(told as never)
      ) {
        pace = (said.message as { data?: number }).data ?? (said.message as number);
        due = performance.now();
      }
      if (pace === 0) {
        Atomics.wait(sleep, 0, 0, 1);
        return null;
      }
      if (pace !== Number.POSITIVE_INFINITY) {
        const now = performance.now();
        if (now < due) Atomics.wait(sleep, 0, 0, due - now);
        // What was held up for long is not made up for.
        due = Math.max(due, now - 20) + (1000 * rows * floats * 4) / pace;
      }
      if (stamped) {
        const stamp = stampNow();
        for (let i = 0; i < stamped.length; i += floats) stamped[i] = stamp;
      }
      context.report.steps(rows);
      return columns;
    },
    close: () => told.close(),
  };
});
