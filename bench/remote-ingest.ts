/** Measures the heap bytes that the learner's thread allocates for each message that it takes. */
import { ReplayBuffer } from '../src/index.ts';
import { Ingest } from '../src/net/remote/ingest.ts';
import { emptyHeader, HEADER_BYTES, sealMessage } from '../src/net/remote/message.ts';
import { sinkOf } from '../src/net/remote/row-sink.ts';
import { SessionOffsets } from '../src/net/remote/session-offsets.ts';
import { median, type Report } from './harness.ts';

const MESSAGES = 400;
const ROWS = 300;

/**
 * Reports the median over rounds, because a garbage collection distorts the round that it happens
 * in.
 */
export function garbage(report: Report): void {
  const buffer = ReplayBuffer.create({ capacity: 10_000, fields: { row: { shape: [43] } } });
  const sink = sinkOf(buffer.share() as never);
  const ingest = new Ingest({
    marks: SessionOffsets.create(),
    sink,
    layout: 7,
    maxVersionLag: Number.POSITIVE_INFINITY,
    version: () => 0,
    now: Date.now,
  });
  const { rowBytes } = sink;
  const message = new Uint8Array(HEADER_BYTES + ROWS * rowBytes);
  const each: number[] = [];
  let first = 0;
  for (let round = 0; round < 25; round++) {
    const messages = Array.from({ length: MESSAGES }, () => {
      const header = { session: 1, rowBytes, layout: 7, first, base: first, rows: ROWS };
      sealMessage(message, { ...emptyHeader(), ...header });
      first += ROWS;
      return message.slice();
    });
    const before = process.memoryUsage().heapUsed;
    for (const bytes of messages) ingest.take(bytes);
    each.push((process.memoryUsage().heapUsed - before) / MESSAGES);
  }
  // Drops the first rounds, in which V8 compiles the code.
  const value = median(each.slice(10));
  report({
    case: `a message of ${ROWS} rows that is taken`,
    metric: 'left to be collected',
    value,
    unit: 'B',
    goal: { most: 0 },
  });
  sink.close();
  buffer.close();
}
