/**
 * A collector for the benchmark `remote`. It makes blocks of rows at a requested pace. Each row
 * contains the time stamp of its creation.
 */
import { BroadcastChannel, receiveMessageOnPort } from 'node:worker_threads';
import { type CollectorContext, defineCollector } from '../src/index.ts';
import { stampNow } from './remote-clock.ts';

/**
 * The channel with the pace of this process's collectors: bytes per second that each makes. 0 stops
 * them, and Infinity makes them as fast as possible.
 */
export const PACE = 'hotslot bench pace';
/** Bytes of a block. All its rows get the same time stamp. */
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
  // The channel does not keep the thread alive.
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
        // After a long delay, the collector makes up for at most 20 ms.
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
