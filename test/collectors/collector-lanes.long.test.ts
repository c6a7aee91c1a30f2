/**
 * Tests collectors of trajectories in real threads. Each collector has its own lanes, and the end
 * of a collector leaves all steps whole.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import {
  CollectorPool,
  type CollectorPoolOptions,
  RateLimiter,
  ReplayBuffer,
  type TrajectoryBuffer as Trajectories,
  TrajectoryBuffer,
} from '../../src/index.ts';
import { threadsOf } from '../../src/run/collectors/collector-pool.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll, setting } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import type stepping from './steps-collector.ts';
import { EPISODE, fields, type StepsOptions } from './steps-collector.ts';

type Buffer = Trajectories<typeof fields>;

const entry = new URL('./steps-collector.js', import.meta.url);

function makeBuffer(
  lanes: number,
  options: { perLane?: number; limiter?: RateLimiter } = {},
): Buffer {
  const { perLane = 2 ** 16, limiter } = options;
  return TrajectoryBuffer.create({
    capacity: lanes * perLane,
    lanes,
    fields,
    ...(limiter ? { limiter } : {}),
  });
}

const newWords = () => new Int32Array(new SharedArrayBuffer(12));

function optionsOf(
  buffer: Buffer,
  options: Partial<StepsOptions>,
): CollectorPoolOptions<typeof stepping> {
  return { entry, buffer, options: { words: newWords(), ...options } };
}

interface Step {
  count: number;
  worker: number;
  maker: number;
  terminated: boolean;
  final: boolean;
  episodeStep: number;
}

/** Returns the number of written places of a lane. Fails if a place was overwritten. */
function placesOf(buffer: Buffer, lane: number): number {
  const isThere = (n: number) => {
    try {
      return buffer.read([n * buffer.lanes + lane]).ids.length === 1;
    } catch (error) {
      expect(error).to.be.instanceOf(RangeError);
      return false;
    }
  };
  let places = 0;
  for (let step = buffer.laneCapacity; step >= 1; step /= 2)
    if (isThere(places + step - 1)) places += step;
  return places;
}

/** Returns all steps of a lane. */
function stepsOf(buffer: Buffer, lane: number): Step[] {
  const steps: Step[] = [];
  const places = placesOf(buffer, lane);
  for (let n = 0; n < places; n++) {
    const read = buffer.read([n * buffer.lanes + lane]);
    const [at, count, worker, maker] = read.obs as unknown as [number, number, number, number];
    expect(at, `lane of place ${n}`).to.equal(lane);
    const final = read.final[0] === 1;
    if (!final) expect([read.actions[0], read.rewards[0]]).to.deep.equal([count, count]);
    steps.push({
      count,
      worker,
      maker,
      final,
      terminated: read.terminated[0] === 1,
      episodeStep: read.episodeStep[0]!,
    });
  }
  return steps;
}

/**
 * Checks that the steps of a lane are consecutive, and that a restarted collector begins at 0 with
 * a new episode. Returns the numbers of the lane's collectors in order.
 */
function checkLane(buffer: Buffer, lane: number): number[] {
  const makers: number[] = [];
  let before: Step | null = null;
  for (const step of stepsOf(buffer, lane)) {
    if (before === null || step.maker !== before.maker) {
      makers.push(step.maker);
      expect([step.count, step.episodeStep, step.final]).to.deep.equal([0, 0, false]);
    } else {
      expect(step.count).to.equal(before.final ? before.count : before.count + 1);
      expect(step.episodeStep).to.equal(before.final ? 0 : before.episodeStep + 1);
      expect(step.final, 'a final observation follows each terminated step').to.equal(
        before.terminated,
      );
    }
    if (!step.final) expect(step.terminated).to.equal((step.count + 1) % EPISODE === 0);
    before = step;
  }
  return makers;
}

/** Checks that rows drawn during writes contain the values of one episode. */
function checkDraws(buffer: Buffer, seed: number): void {
  const view = buffer.transitions({ nStep: 3, gamma: 1 });
  if (buffer.drawable(view) === 0) return;
  const { obs, nextObs, actions, rewards, steps, discounts, ids } = buffer.sample({
    view,
    seed,
    count: 64,
  });
  for (let row = 0; row < 64; row++) {
    const [lane, count, worker, maker] = obs.subarray(4 * row, 4 * row + 4) as unknown as [
      number,
      number,
      number,
      number,
    ];
    const left = EPISODE - (count % EPISODE);
    const k = Math.min(3, left);
    expect(ids[row]! % buffer.lanes).to.equal(lane);
    expect([...nextObs.subarray(4 * row, 4 * row + 4)]).to.deep.equal([
      lane,
      count + k,
      worker,
      maker,
    ]);
    expect([actions[row], steps[row], discounts[row]]).to.deep.equal([
      count,
      k,
      k === left ? 0 : 1,
    ]);
    expect(rewards[row]).to.equal(k * count + (k * (k - 1)) / 2);
  }
}

/** Returns the texts of the collector warnings during `act`. */
async function warningsOf(act: (heard: readonly string[]) => Promise<void>): Promise<string[]> {
  const heard: string[] = [];
  const hear = ({ name, message }: Error) =>
    void (name === 'CollectorWarning' && heard.push(message));
  process.on('warning', hear);
  await act(heard).finally(() => process.off('warning', hear));
  return heard;
}

describe('CollectorPool of a TrajectoryBuffer', () => {
  it('assigns lanes to workers in order and evenly, and adds every step to its lane', async () => {
    const buffer = makeBuffer(7);
    await using pool = await CollectorPool.open({
      ...optionsOf(buffer, { calm: true }),
      workers: 3,
    });
    await until('every lane has episodes', () =>
      Array.from({ length: 7 }, (_, lane) => placesOf(buffer, lane) > 25).every(Boolean),
    );
    await pool.close();
    const workers = Array.from({ length: 7 }, (_, lane) => stepsOf(buffer, lane)[0]!.worker);
    expect(workers).to.deep.equal([0, 0, 1, 1, 2, 2, 2]);
    for (let lane = 0; lane < 7; lane++) expect(checkLane(buffer, lane)).to.have.length(1);
    // When the pool closes, a counted step may not have been added.
    expect(buffer.ptr).to.be.within(pool.statistics().steps - 7, pool.statistics().steps);
  });

  for (const [how, options] of [
    ['adds by its writer and returns null', { itself: true }],
    ['promises its steps', { later: true }],
  ] as const)
    itAll(
      `a collector that ${how} waits for the limiter, and close() wakes the collector`,
      async () => {
        const limiter = RateLimiter.create({
          samplesPerInsert: 1,
          minSize: 1,
          errorBuffer: 8,
          gateAdd: true,
        });
        const buffer = makeBuffer(2, { limiter });
        const pool = await CollectorPool.open(optionsOf(buffer, options));
        await until('the collector waits', () => pool.statistics().waits > 0);
        const full = buffer.ptr;
        expect(full).to.be.within(6, 10);
        expect(limiter.takeSamples(4)).to.equal(true);
        await until(
          'it has gone on and waits again',
          () => buffer.ptr === full + 4 && limiter.addWaitingFor(2) !== null,
        );
        await pool.close();
        // Rejects if close() had to terminate the thread because the collector ignored the stop.
        await pool.done;
        expect(buffer.ptr).to.equal(full + 4);
        for (const lane of [0, 1]) checkLane(buffer, lane);
      },
    );

  for (const fault of ['collect', 'exit', 'uncaught'] as const)
    (fault === 'collect' ? it : itAll)(
      `a collector that fails (${fault}) gets its lanes back, and its last episode stays open`,
      async () => {
        const words = newWords();
        const buffer = makeBuffer(5);
        const options = { fault, faulty: 1, words, calm: true, later: fault === 'uncaught' };
        const warnings = await warningsOf(async (heard) => {
          const pool = await CollectorPool.open({
            ...optionsOf(buffer, options),
            workers: 2,
            restart: 2,
          });
          for (let restart = 1; restart <= 2; restart++) {
            const before = placesOf(buffer, 4);
            await until('it has begun', () => placesOf(buffer, 4) > before + EPISODE);
            Atomics.store(words, 2, 1);
            await until(
              'it is made anew',
              () => heard.length === restart && Atomics.load(words, 0) === 2 + restart,
            );
            const there = placesOf(buffer, 4);
            await until('steps come again', () => placesOf(buffer, 4) > there + EPISODE);
          }
          await pool.close();
          await pool.done;
        });
        expect(warnings[0]).to.match(/^collector 1 failed: .*; it is restarted$/);
        for (let lane = 0; lane < 5; lane++)
          expect(checkLane(buffer, lane)).to.have.length(lane < 2 ? 1 : 3);
        // The last steps of a failed collector have no end. So its last three steps have no whole
        // window.
        const view = buffer.transitions({ nStep: 3 });
        const drawable = new Set(buffer.drawableIds(view));
        const steps = stepsOf(buffer, 4);
        for (const [n, { maker, final }] of steps.entries()) {
          if (final) continue;
          const window = steps.slice(n, n + 4).filter((step) => step.maker === maker);
          const ended = window.some((step) => step.terminated);
          expect(drawable.has(n * 5 + 4), `place ${n}`).to.equal(ended || window.length === 4);
        }
      },
    );

  itAll(
    'a thread that is terminated during a write leaves no mixed step and is restarted',
    async function () {
      this.timeout(240_000);
      const times = setting({ short: 0, all: 6, long: 15 });
      const buffer = makeBuffer(6, { perLane: 64 });
      const words = newWords();
      const made = () => Atomics.load(words, 0);
      const warnings = await warningsOf(async () => {
        const pool = await CollectorPool.open({
          ...optionsOf(buffer, { words }),
          workers: 2,
          restart: times,
        });
        for (let time = 0; time < times; time++) {
          const [ptr, before] = [buffer.ptr, made()];
          await until('it writes', () => buffer.ptr > ptr + 500);
          await wait((time * 7) % 5);
          await threadsOf(pool)[time % 2]!.terminate();
          await until('another is made', () => made() === before + 1);
          const again = buffer.ptr;
          await until('both write', () => {
            checkDraws(buffer, time);
            return buffer.ptr > again + 500;
          });
        }
        await pool.close();
        await pool.done;
      });
      expect(warnings).to.have.length(times);
      for (const text of warnings)
        expect(text).to.match(/^collector [01] failed: .*exit.*; it is restarted$/);
      // All lanes are free: those of the terminated threads, and those of the last threads.
      using writer = buffer.writer();
      expect(writer.lanes).to.equal(6);
    },
  );

  itAll('a thread that is terminated before its module runs is restarted each time', async () => {
    const times = 6;
    const buffer = makeBuffer(2);
    const warnings = await warningsOf(async () => {
      const pool = await CollectorPool.open({ ...optionsOf(buffer, {}), restart: times });
      await until('it writes', () => buffer.ptr > 100);
      let last: Worker | null = null;
      for (let time = 0; time < times; time++) {
        // Terminates the thread as soon as it exists, before its module has run.
        await until(
          'there is another thread',
          () => threadsOf(pool)[0] !== undefined && threadsOf(pool)[0] !== last,
        );
        last = threadsOf(pool)[0] as Worker;
        await last.terminate();
      }
      const ptr = buffer.ptr;
      await until('the last one writes', () => buffer.ptr > ptr + 100);
      await pool.close();
    });
    expect(warnings).to.have.length(times);
  });

  itAll('a restarted collector waits until its lanes are free', async () => {
    const words = newWords();
    const buffer = makeBuffer(2);
    const warnings = await warningsOf(async (heard) => {
      const pool = await CollectorPool.open({
        ...optionsOf(buffer, { fault: 'collect', words, calm: true }),
        restart: 1,
      });
      Atomics.store(words, 2, 1);
      // Does not return to the event loop, which would restart the collector, before this thread
      // has taken its lane.
      let held: ReturnType<Buffer['writer']> | null = null;
      for (const end = performance.now() + 60_000; held === null && performance.now() < end; ) {
        try {
          held = buffer.writer({ firstLane: 1 });
        } catch (error) {
          expect((error as { code?: string }).code).to.equal('ERR_HOTSLOT_STATE_BUSY');
        }
      }
      const { ptr } = buffer;
      await until('it is made anew', () => heard.length === 1);
      await wait(100);
      expect([buffer.ptr, Atomics.load(words, 0)]).to.deep.equal([ptr, 1]);
      held?.close();
      await until('steps come again', () => buffer.ptr > ptr);
      await pool.close();
      await pool.done;
    });
    expect(warnings).to.have.length(1);
  });

  itAll('open() releases all lanes when a factory throws', async () => {
    const buffer = makeBuffer(4);
    const error = await rejection(
      CollectorPool.open({ ...optionsOf(buffer, { fault: 'factory', faulty: 1 }), workers: 2 }),
    );
    expect(error.message).to.match(/^collector 1 failed: no environment today/);
    buffer.writer().close();
  });

  itAll('open() rejects lanes that have an open writer', async () => {
    const buffer = makeBuffer(4);
    using _writer = buffer.writer({ firstLane: 3 });
    const error = await rejection(CollectorPool.open({ ...optionsOf(buffer, {}), workers: 2 }));
    expect(error.message).to.match(
      /^collector 1 failed: lane 3 of lanes 2 to 3 has an open writer; close that writer first/,
    );
    expect((error.cause as { code?: string }).code).to.equal('ERR_HOTSLOT_STATE_BUSY');
  });

  it('open() rejects more workers than lanes, and a value that is no buffer', async () => {
    const buffer = makeBuffer(2);
    const error = await rejection(CollectorPool.open({ ...optionsOf(buffer, {}), workers: 3 }));
    expect(error).to.be.instanceOf(RangeError);
    expect(error.message).to.equal(
      "workers must be at most the buffer's lanes, a lane each; got 3 for 2",
    );
    const none = await rejection(
      CollectorPool.open({ ...optionsOf(buffer, {}), buffer: {} as never }),
    );
    expect(none.message).to.match(/^buffer must be a ReplayBuffer or a TrajectoryBuffer, got /);
  });

  it('done rejects with the collector and the field when a step has the wrong size', async () => {
    const other = TrajectoryBuffer.create({
      capacity: 64,
      lanes: 2,
      fields: { ...fields, actions: { shape: [2], dtype: 'int32' } },
    });
    const pool = await CollectorPool.open(optionsOf(other as unknown as Buffer, {}));
    const error = await rejection(pool.done);
    expect(error.message).to.match(
      /^collector 0 failed: actions must hold 2 elements × 2 lanes = 4, got 2/,
    );
    await pool.close();
  });

  itAll(
    'open() rejects a factory that needs a writer when the buffer is a ReplayBuffer',
    async () => {
      const buffer = ReplayBuffer.create({ capacity: 64, fields: { value: { shape: [2] } } });
      const error = await rejection(
        CollectorPool.open({ entry, buffer, options: { words: newWords() } }),
      );
      expect(error.message).to.match(/^collector 0 failed: .*null/);
    },
  );
});
