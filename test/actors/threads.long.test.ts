/**
 * Tests the four actors in separate threads that are stopped, terminated and replaced in every
 * state of a slot. Every tick must be applied once and in order.
 */
import { once } from 'node:events';
import { expect } from 'chai';
import { OpenedStream } from '../../src/device/stream.ts';
import { roles } from '../../src/engine/ring/slot.ts';
import {
  type PipelineError,
  ReplayBuffer,
  type ReplayPipeline,
  type Tick,
} from '../../src/index.ts';
import { Control } from '../../src/shm/control.ts';
import { closeAll, counter, filled, pipeline, rows, SAMPLE, SPREAD } from '../pipeline/fixture.ts';
import { bufferOf, slotsOf, workersOf } from '../pipeline/inside.ts';
import { pinnedHandles } from '../rig/handles.ts';
import { Latch } from '../rig/latch.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { until } from '../rig/until.ts';

/** Checks that the journal has each tick once, in order, and that each update was applied once. */
function expectExact(ticks: Tick[], count: number): void {
  const once = ticks.filter((tick, i) => tick.tickId !== ticks[i - 1]?.tickId);
  expect(once.map((tick) => tick.tickId)).to.deep.equal(Array.from({ length: count }, (_, i) => i));
  expect(once.map((tick) => tick.scalars.count)).to.deep.equal(
    Array.from({ length: count }, (_, i) => i + 1),
  );
}

/**
 * Brings a slot of a manual pipeline to a state and keeps it there. Requested: the buffer has no
 * rows. Submitted: the copy stream is held. Ready: the batch is not sampled. Replaying: the learner
 * is held. Packed needs a missing thread and is tested below.
 */
const held: Record<string, (made: ReplayPipeline, latch: Latch) => Promise<void>> = {
  Free: async () => {},
  Requested: async (made) => {
    made.startPrepare(0, SAMPLE, 1_000_000);
  },
  Submitted: async (made, latch) => {
    const { backend, device } = slotsOf(made);
    latch.hold(new OpenedStream(device, backend.share().stream, 0, 'device'));
    made.startPrepare(0, SAMPLE);
    await reached(made, 'Submitted');
  },
  Ready: async (made) => {
    await made.waitUntilReady(0, SAMPLE);
  },
  Replaying: async (made, latch) => {
    await made.sampleLargeBatch(0, SAMPLE);
    latch.hold(slotsOf(made).device.currentStream);
    made.afterTick();
    await reached(made, 'Replaying');
  },
};

const reached = (made: ReplayPipeline, state: string) =>
  until(`the slot is ${state}`, () => made.inspect().slots[0]?.state === state);

const latchOf = (made: ReplayPipeline) => new Latch(slotsOf(made).device);

describe('actors in separate threads', () => {
  afterEach(closeAll);

  itAll('apply every tick once and in order under load while rows are added', async () => {
    const buffer = filled(50, 200);
    const made = await pipeline({ placement: SPREAD, buffer, depth: 3 });
    const update = counter(made);
    const ticks: Tick[] = [];
    made.on('tick', (tick) => {
      ticks.push(tick);
      if (tick.tickId % 10 === 0) buffer.add(rows(7, tick.tickId));
    });
    await made.run({ ticks: 5000 });
    expectExact(ticks, 5000);
    await made.close();
    update.close();
  });

  for (const state of Object.keys(held)) {
    (state === 'Submitted' ? it : itAll)(
      `Slot-6: close() resolves and rejects waiters while the slot is ${state}`,
      async () => {
        const made = await pipeline({ placement: SPREAD });
        using latch = latchOf(made);
        await held[state]?.(made, latch);
        const waiting =
          state === 'Requested' || state === 'Submitted'
            ? rejection(made.waitUntilReady(0, SAMPLE))
            : null;
        const closing = made.close();
        latch.open();
        await closing;
        if (waiting) expect(await waiting).to.include({ code: 'ERR_HOTSLOT_STATE_CLOSED' });
      },
    );

    for (const [thread, role] of roles.entries()) {
      (state === 'Ready' && role === 'replay' ? it : itAll)(
        `a lost ${role} thread while the slot is ${state} fails the pipeline, and close() resolves`,
        async () => {
          const made = await pipeline({ placement: SPREAD });
          using latch = latchOf(made);
          await held[state]?.(made, latch);
          const heard = new Promise<PipelineError>((resolve) => made.once('error', resolve));
          const terminated = workersOf(made)[thread]?.terminate();
          latch.open();
          await terminated;
          const error = await heard;
          expect(error).to.include({ code: 'ERR_HOTSLOT_PIPELINE', actor: role });
          expect(error.cause).to.include({ code: 'ERR_HOTSLOT_THREAD_LOST' });
          expect(await rejection(made.waitUntilReady(1, SAMPLE))).to.include({
            code: 'ERR_HOTSLOT_PIPELINE',
            actor: role,
          });
          await made.close();
        },
      );

      (state === 'Submitted' && role === 'replay' ? it : itAll)(
        `Slot-8: a lost ${role} thread is replaced while the slot is ${state}, and the tick continues`,
        async () => {
          const made = await pipeline({ placement: SPREAD, restart: 1, buffer: filled(100) });
          using latch = latchOf(made);
          await held[state]?.(made, latch);
          const restarted = once(made as never, 'restart');
          // The terminated thread may be the one that runs the held native work, and a thread ends
          // only after that work.
          const terminated = workersOf(made)[thread]?.terminate();
          latch.open();
          await terminated;
          await restarted;
          if (state === 'Requested') {
            expect(await made.waitUntilReady(0, SAMPLE, { timeoutMs: 5 })).to.equal(false);
            return;
          }
          if (state !== 'Replaying') await made.sampleLargeBatch(0, SAMPLE);
          made.afterTick();
          for (const tick of [1, 2, 3, 4, 5]) {
            await made.sampleLargeBatch(tick, SAMPLE);
            made.afterTick();
          }
          await made.close();
        },
      );
    }
  }

  describe('while the slot is Packed', () => {
    const { call } = Control.prototype;
    let release: () => void;
    afterEach(() => {
      Control.prototype.call = call;
    });

    /**
     * Ends submit's thread and prevents its successor from attaching. A slot that pack passes on
     * stays Packed.
     */
    async function packed(): Promise<ReplayPipeline> {
      const made = await pipeline({ placement: SPREAD, restart: 2 });
      const held = new Promise<void>((resolve) => {
        release = resolve;
      });
      Control.prototype.call = async function (
        this: Control<object>,
        ...how: Parameters<typeof call>
      ) {
        await held;
        return call.apply(this, how);
      } as typeof call;
      await workersOf(made)[1]?.terminate();
      made.startPrepare(0, SAMPLE);
      await reached(made, 'Packed');
      return made;
    }

    itAll('Slot-6: close() resolves, and waitUntilReady() rejects', async () => {
      const made = await packed();
      const waiting = rejection(made.waitUntilReady(0, SAMPLE));
      const closing = made.close();
      release();
      await closing;
      expect(await waiting).to.include({ code: 'ERR_HOTSLOT_STATE_CLOSED' });
    });

    for (const [thread, role] of roles.entries()) {
      if (role === 'submit') continue;
      (role === 'pack' ? it : itAll)(
        `Slot-8: a lost ${role} thread is replaced too, and the tick continues`,
        async () => {
          const made = await packed();
          const both = new Promise<void>((resolve) => {
            let restarts = 0;
            made.on('restart', () => ++restarts === 2 && resolve());
          });
          await workersOf(made)[thread]?.terminate();
          release();
          await both;
          for (const tick of [0, 1, 2, 3, 4, 5]) {
            await made.sampleLargeBatch(tick, SAMPLE);
            made.afterTick();
          }
          await made.close();
        },
      );
    }
  });

  itLonger(
    'Slot-8: every update is applied exactly once if threads are terminated during a run',
    async () => {
      const kills = setting({ short: 4, all: 12, long: 100 });
      const made = await pipeline({
        placement: SPREAD,
        depth: 3,
        restart: kills,
        buffer: ReplayBuffer.offPolicy({ capacity: 64, obsDim: 4, actionDim: 1 }),
      });
      const update = counter(made);
      const ticks: Tick[] = [];
      made.on('tick', (tick) => ticks.push(tick));
      let restarts = 0;
      let alive: (() => void) | null = null;
      made.on('restart', () => {
        restarts++;
        alive?.();
      });
      const abort = new AbortController();
      bufferOf(made).add(rows(64));
      const running = made.run({ signal: abort.signal });
      // Ends a thread of a different role each time, after a different number of ticks.
      for (let kill = 0; kill < kills; kill++) {
        const thread = (kill * 5 + (kill >> 2)) % 4;
        const goal = made.inspect().finished + 5 + ((kill * 37) % 61);
        await until(`${goal} ticks are done`, () => made.inspect().finished >= goal);
        const again = new Promise<void>((resolve) => {
          alive = resolve;
        });
        await workersOf(made)[thread]!.terminate();
        await again;
      }
      abort.abort();
      const summary = await running;
      expect(restarts).to.equal(kills);
      expectExact(ticks, summary.ticks);
      expect(await update.count.toArray()).to.deep.equal(Float32Array.of(summary.ticks));
      await made.close();
      update.close();
    },
  );

  it("the pipeline emits 'error' when a thread ends after the last restart", async () => {
    const made = await pipeline({ placement: SPREAD, restart: 1 });
    const restarted = once(made as never, 'restart');
    await workersOf(made)[1]?.terminate();
    await restarted;
    const heard = once(made as never, 'error');
    await workersOf(made)[1]?.terminate();
    await heard;
    await made.close();
  });

  it('a terminated thread leaves no pinned handle', async () => {
    const before = pinnedHandles();
    const made = await pipeline({ placement: SPREAD });
    made.on('error', () => {});
    for (const worker of workersOf(made)) await worker?.terminate();
    expect(pinnedHandles()).to.equal(before);
    await made.close();
  });
});
