/**
 * Tests Slot-9: a run is stopped when the call that stops it returns, even if the opener's thread
 * is busy afterwards.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { internalsOf } from '../../src/engine/pipeline/replay-pipeline.ts';
import type { RunState } from '../../src/engine/pipeline/run-control.ts';
import { Checkpoint, type ReplayPipeline } from '../../src/index.ts';
import { rejection } from '../rig/refusal.ts';
import { itLonger, setting } from '../rig/setting.ts';
import { closeAll, counter, pipeline, SPREAD } from './fixture.ts';
import { bufferOf } from './inside.ts';
import { upToAuto } from './placements.ts';

/** Keeps the event loop busy until `done` returns true. Only other threads can cause that. */
function busyUntil(what: string, done: () => boolean): void {
  for (const end = performance.now() + 60_000; !done(); )
    if (performance.now() > end)
      throw new Error(`the opener was busy for a minute, and ${what} did not come`);
}
const ringOf = (made: ReplayPipeline) => internalsOf(made).parts.ring;

/** Starts a run, and returns when some of its ticks are finished. */
async function running(made: ReplayPipeline, signal?: AbortSignal) {
  const outcome = made.run({ ...(signal ? { signal } : {}) }).then(
    (summary) => ({ summary, error: undefined }),
    (error: unknown) => ({ summary: undefined, error }),
  );
  while (made.inspect().finished < 20) await new Promise(setImmediate);
  return outcome;
}

for (const [name, placement] of Object.entries({
  auto: 'auto',
  'a thread per role': SPREAD,
} as const))
  describe(`stopping a run, ${name}`, function () {
    this.timeout(120_000);
    const rest = upToAuto(placement, itLonger);
    const rounds = setting({ short: 1, all: 8, long: 20 });
    afterEach(closeAll);

    /**
     * Stops a run, then keeps the opener busy until no slot is in use. Ticks that had no slot at
     * the stop must not be applied. Returns the number of finished ticks.
     */
    async function stop(made: ReplayPipeline, how: () => void): Promise<number> {
      const ring = ringOf(made);
      how();
      const { next } = ring;
      busyUntil('the end of the ticks that had slots', () => ring.idle);
      expect(ring.finished).to.be.at.most(next);
      return ring.finished;
    }

    itLonger('an abort applies at most the ticks that have slots', async () => {
      const made = await pipeline({ placement });
      const update = counter(made);
      for (let round = 0, before = 0; round < rounds; round++) {
        const abort = new AbortController();
        const outcome = made.run({ signal: abort.signal });
        while (made.inspect().finished < before + 20) await new Promise(setImmediate);
        const after = await stop(made, () => abort.abort());
        expect(await outcome).to.deep.include({
          aborted: true,
          ended: 'aborted',
          ticks: after - before,
        });
        expect(await update.count.toArray()).to.deep.equal(Float32Array.of(after));
        before = after;
      }
      update.close();
    });

    rest('save() pauses requests at the call, and resumes requests afterwards', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'hotslot-stops-'));
      const made = await pipeline({ placement });
      const update = counter(made);
      const checkpoint = await Checkpoint.open(folder, { pipeline: made, buffer: bufferOf(made) });
      const abort = new AbortController();
      const outcome = running(made, abort.signal);
      while (made.inspect().finished < 20) await new Promise(setImmediate);
      let saved: Promise<unknown> = Promise.resolve();
      const held = await stop(made, () => {
        saved = checkpoint.save();
      });
      await saved;
      while (made.inspect().finished < held + 20) await new Promise(setImmediate);
      abort.abort();
      expect((await outcome).summary).to.include({ aborted: true });
      await checkpoint.close();
      rmSync(folder, { recursive: true });
      update.close();
    });

    rest('an abort while a save holds the run requests no tick after the save', async () => {
      const made = await pipeline({ placement });
      const update = counter(made);
      const abort = new AbortController();
      const outcome = running(made, abort.signal);
      while (made.inspect().finished < 20) await new Promise(setImmediate);
      let held = -1;
      await internalsOf(made).control.use(
        async () => {
          held = ringOf(made).next;
          abort.abort();
          abort.abort();
        },
        { patient: null },
      );
      expect((await outcome).summary).to.include({ aborted: true, ticks: held });
      expect(ringOf(made).next).to.equal(held);
      update.close();
    });

    rest('a failure or close() applies at most the ticks that have slots', async () => {
      for (const how of setting({ short: ['close'], all: ['fail', 'close'] } as const)) {
        const made = await pipeline({ placement });
        const update = counter(made);
        const outcome = running(made);
        while (made.inspect().finished < 20) await new Promise(setImmediate);
        const ring = ringOf(made);
        let closed: Promise<void> = Promise.resolve();
        if (how === 'fail')
          ring.fail({ role: 'opener', slot: -1, tick: -1, error: new Error('out of eggs') });
        else closed = made.close();
        const { next } = ring;
        const threads = [0, 1, 2, 3];
        busyUntil('the threads’ end', () =>
          threads.every((thread) => ring.header.threadState(thread) !== 1),
        );
        expect(ring.next).to.be.at.most(next);
        const { error } = await outcome;
        expect(error).to.include({
          code: how === 'fail' ? 'ERR_HOTSLOT_PIPELINE' : 'ERR_HOTSLOT_STATE_CLOSED',
        });
        await closed;
        await made.close();
        update.close();
      }
    });
  });

describe('the state of a run', () => {
  afterEach(closeAll);

  it('is running, quiescing when a save begins, held in the save, then running and over', async () => {
    const made = await pipeline({ placement: 'auto' });
    const update = counter(made);
    const { control } = internalsOf(made);
    const comesTo = async (state: RunState) => {
      while (control.state !== state) await new Promise(setImmediate);
    };
    expect(control.state).to.equal('over');
    const abort = new AbortController();
    const outcome = running(made, abort.signal);
    while (made.inspect().finished < 20) await new Promise(setImmediate);
    expect(control.state).to.equal('running');
    let inSave: RunState = 'over';
    const work = async () => {
      inSave = control.state;
    };
    await control.use(work, { patient: null, others: () => comesTo('quiescing') });
    expect(inSave).to.equal('held');
    await comesTo('running');
    abort.abort();
    await outcome;
    expect(control.state).to.equal('over');
    update.close();
  });
});

describe('ReplayPipeline.run() with a signal or a throwing listener', () => {
  afterEach(closeAll);

  it('applies no tick if the signal is aborted before the call', async () => {
    const made = await pipeline({ placement: 'inline' });
    const update = counter(made);
    expect(await made.run({ ticks: 5, signal: AbortSignal.abort() })).to.include({
      ticks: 0,
      ended: 'aborted',
    });
    expect(await made.run({ ticks: 5 })).to.include({ ticks: 5, ended: 'ticks', aborted: false });
    expect(await update.count.toArray()).to.deep.equal(Float32Array.of(5));
    update.close();
  });

  it("resolves with ended: 'ticks' if the signal is aborted in a listener of the last tick", async () => {
    const made = await pipeline({ placement: 'inline' });
    const update = counter(made);
    const abort = new AbortController();
    made.on('tick', ({ tickId }) => tickId === 4 && abort.abort());
    expect(await made.run({ ticks: 5, signal: abort.signal })).to.include({
      ticks: 5,
      ended: 'ticks',
      aborted: false,
    });
    update.close();
  });

  it('ends when the signal is aborted while another pipeline is captured', async () => {
    const [made, other] = [
      await pipeline({ placement: 'inline' }),
      await pipeline({ placement: 'inline' }),
    ];
    const update = counter(made);
    const abort = new AbortController();
    const outcome = running(made, abort.signal);
    while (made.inspect().finished < 20) await new Promise(setImmediate);
    other.capture(() => abort.abort());
    expect((await outcome).summary).to.include({ aborted: true });
    expect(await other.run({ ticks: 3 })).to.include({ ticks: 3, ended: 'ticks' });
    update.close();
  });

  it('rejects with the value that a `tick` listener throws', async () => {
    const made = await pipeline({ placement: 'inline' });
    const update = counter(made);
    made.on('tick', () => {
      throw null;
    });
    const error = await made.run().then(
      () => 'resolved',
      (thrown: unknown) => thrown,
    );
    expect(error).to.equal(null);
    made.removeAllListeners();
    expect(await made.run({ ticks: 1 })).to.include({ ticks: 1 });
    await made.close();
    expect(await rejection(() => made.run())).to.include({ code: 'ERR_HOTSLOT_STATE_CLOSED' });
    update.close();
  });
});
