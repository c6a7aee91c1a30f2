/**
 * Tests saves during writes that never pause. The saved rows and steps must be complete, in order
 * and without gaps, although the writer overwrites some during the save.
 */
import { join } from 'node:path';
import { expect } from 'chai';
import { Checkpoint, ReplayBuffer, TrajectoryBuffer } from '../../src/index.ts';
import { itLonger, setting } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';
import { until } from '../rig/until.ts';
import { inFolder } from './rig.ts';
import { fields, laneFields, WORDS, type WriterTask, wordOf } from './telling-writer.ts';

const THREAD = new URL('./writer-thread.js', import.meta.url);
const SAVES = setting({ short: 1, all: 15, long: 200 });
const RINGS = setting({ short: [300], all: [300, 20_000] });
const LANES = setting({ short: [30_000], all: [60, 30_000] });

/** Runs a writer in a thread until `use` settles. */
async function beside(task: Omit<WriterTask, 'stop'>, use: () => Promise<void>): Promise<void> {
  const stop = new Int32Array(new SharedArrayBuffer(4));
  const thread = new TestThread<WriterTask>(THREAD, { ...task, stop });
  try {
    await use();
  } finally {
    Atomics.store(stop, 0, 1);
    await thread.result();
  }
}

/** Checks that the rows are complete and numbered consecutively. Returns the first number. */
function numbered(words: Float64Array, what: string): number {
  const first = words[0]!;
  let wrong = 0;
  for (let i = 0; i < words.length; i++)
    if (words[i] !== wordOf(first + Math.floor(i / WORDS), i % WORDS)) wrong++;
  expect(wrong, `${what}: values that differ from the added ones`).to.equal(0);
  return first;
}

describe('Checkpoint: saves during writes', function () {
  this.timeout(setting({ short: 120_000, all: 300_000 }));

  // The small ring wraps many times in a save. The large ring wraps once in several saves.
  for (const capacity of RINGS)
    itLonger(
      `a save of a ring of ${capacity} rows holds the newest rows, complete and in order`,
      () =>
        inFolder(async (folder) => {
          const buffer = ReplayBuffer.create({ capacity, fields });
          await beside({ rows: buffer.share() as never }, async () => {
            await until('the ring is full', () => buffer.ptr > capacity);
            let last = 0;
            for (let i = 0; i < SAVES; i++) {
              await until('the writer goes on', () => buffer.ptr > last);
              const checkpoint = await Checkpoint.open(folder, { buffer });
              await checkpoint.save();
              await checkpoint.close();
              const back = ReplayBuffer.create({ capacity, fields });
              await Checkpoint.restore(folder, { buffer: back });
              expect([back.size, back.ptr > last]).to.deep.equal([capacity, true]);
              last = back.ptr;
              const places = Uint32Array.from(
                { length: capacity },
                (_, at) => (back.ptr + at) % capacity,
              );
              const rows = back.gather(places, new Float64Array(capacity * WORDS));
              expect(numbered(rows, `save ${i}`)).to.equal(back.ptr - capacity);
            }
          });
        }),
    );

  for (const capacity of LANES)
    itLonger(`a save of lanes of ${capacity / 3} places holds complete steps without gaps`, () =>
      inFolder(async (folder) => {
        const made = () => TrajectoryBuffer.create({ capacity, lanes: 3, fields: laneFields });
        const buffer = made();
        await beside({ lanes: buffer.share() as never }, async () => {
          await until('the slowest lane is full', () => buffer.ptr > 3 * capacity);
          let last = 0;
          for (let i = 0; i < SAVES; i++) {
            const at = join(folder, String(i));
            const checkpoint = await Checkpoint.open(at, { buffer });
            await checkpoint.save();
            await checkpoint.close();
            const back = made();
            await Checkpoint.restore(at, { buffer: back });
            expect(back.ptr).to.be.at.least(last);
            last = back.ptr;
            const ids = [...back.drawableIds(back.transitions())];
            for (let lane = 0; lane < 3; lane++) {
              const mine = ids.filter((id) => id % 3 === lane);
              if (mine.length === 0) continue;
              const { words } = back.read(mine) as unknown as { words: Float64Array };
              expect(numbered(words, `lane ${lane} of save ${i}`)).to.equal(
                Math.floor(mine[0]! / 3),
              );
              expect(mine.at(-1)! - mine[0]!).to.equal((mine.length - 1) * 3);
            }
          }
        });
      }),
    );
});
