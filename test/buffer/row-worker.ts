/**
 * A thread of the replay buffer's stress tests. It writes checked rows, or reads rows and checks
 * them.
 */
import { ReplayBuffer, type SharedReplayBuffer } from '../../src/store/rows/replay-buffer.ts';
import { givenTask, perform } from '../rig/test-thread.ts';
import { checkedRows, fault, WORDS } from './checked-rows.ts';

export interface RowWork {
  shared: SharedReplayBuffer;
  /** counts: threads that are ready, writers that still write, turns of the reader */
  control: SharedArrayBuffer;
  role: 'write' | 'write for ever' | 'read';
  /** threads that start together. 0 for a thread that joins later */
  together: number;
  /** the writer's number, from 1 */
  writer: number;
  /** the least number of adds. A writer continues until the reader has had `turns` turns */
  adds: number;
  rowsPerAdd: number;
  turns: number;
}

const work = givenTask<RowWork>();
const buffer = ReplayBuffer.attach(work.shared);
const control = new Int32Array(work.control);
/** rows per gather */
const ROWS = 16;
const READY = 0;
const WRITING = 1;
const TURNS = 2;

function startTogether(): void {
  if (work.together === 0) return;
  Atomics.add(control, READY, 1);
  Atomics.notify(control, READY);
  for (
    let ready = Atomics.load(control, READY);
    ready < work.together;
    ready = Atomics.load(control, READY)
  ) {
    Atomics.wait(control, READY, ready);
  }
}

function write(adds: number): number {
  // Prepares a few batches, so that most of the time is spent in add(), where races are possible.
  const batches = Array.from({ length: 8 }, (_, i) =>
    checkedRows(work.writer, i * work.rowsPerAdd + 1, work.rowsPerAdd),
  );
  let rows = 0;
  try {
    for (let i = 0; i < adds || Atomics.load(control, TURNS) < work.turns; i++)
      rows += buffer.add(batches[i % batches.length]!);
  } finally {
    // Counts a writer as ended even after an error, because the reader waits for the writers.
    // Writers with the role 'write for ever' are not counted.
    if (work.role === 'write') Atomics.sub(control, WRITING, 1);
  }
  return rows;
}

function read(): { checked: number; wrong: string | null } {
  const out = new Uint32Array(ROWS * WORDS);
  const indices = new Uint32Array(ROWS);
  let checked = 0;
  let last = 0;
  for (let seed = 0; Atomics.load(control, WRITING) > 0; seed++) {
    const ptr = buffer.ptr;
    if (ptr < last) return { checked, wrong: `ptr went back from ${last} to ${ptr}` };
    last = ptr;
    if (ptr === 0) continue;
    const size = Math.min(ptr, buffer.capacity);
    // Reads the newest rows. Writers are close to them, and rows that were committed too early
    // would appear there.
    for (let i = 0; i < ROWS; i++) indices[i] = (ptr - 1 - (i % size)) % buffer.capacity;
    const wrong =
      fault(buffer.gather(indices, out)) ?? fault(buffer.sample({ seed, count: ROWS }, out).rows);
    if (wrong !== null) return { checked, wrong };
    checked += 2 * ROWS;
    Atomics.add(control, TURNS, 1);
  }
  return { checked, wrong: null };
}

/** Reads. If the reader ends for any reason, writers no longer wait for its turns. */
function readAndRelease(): ReturnType<typeof read> {
  try {
    return read();
  } finally {
    Atomics.store(control, TURNS, 2 ** 30);
  }
}

startTogether();
await perform(() =>
  work.role === 'read'
    ? readAndRelease()
    : write(work.role === 'write' ? work.adds : Number.POSITIVE_INFINITY),
);
