/** Halo exchanges between threads, between ranks of one thread, and all the ways in which a rank can leave. */
import { execFileSync } from 'node:child_process';
import { getEventListeners, once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { ThreadEnding } from '../../../src/addon.ts';
import { native } from '../../../src/device/native.ts';
import { type Device, openDevice } from '../../../src/index.ts';
import { ExchangeWords, exchangeWordsBytes, RankState } from '../../../src/operators/halo/exchange-words.ts';
import { failHaloExchange, shareHaloExchange, wordsOf } from '../../../src/operators/halo/shared-exchange.ts';
import type { QuantityHaloOptions } from '../../../src/operators/halo/spec.ts';
import { cubedSphereTopology, cubeFaces, periodicTopology } from '../../../src/operators/halo/topology.ts';
import { HaloUpdater } from '../../../src/operators/halo/updater.ts';
import { allocateShared } from '../../../src/shared-memory.ts';
import { Parked } from '../../../src/wait/bell.ts';
import { errorScope } from '../../device/error-scope.ts';
import { Latch, openHandles, refusal, rejection, until } from '../../device/rig.ts';
import { oddErrors } from '../../odd-errors.ts';
import { TESTED } from '../../tested-device.ts';
import { Part, type Plane, plane } from './plane.ts';
import { behind, parksBehind, type Step } from './steps.ts';
import type { RankAnswer, RankWork } from './updater-worker.ts';

/** A rank in a thread; `answer` rejects when the thread throws or ends without one. */
class RankThread {
  readonly worker: Worker;
  readonly answer: Promise<RankAnswer>;
  readonly words: Int32Array;
  constructor(plane: Plane, rank: number, more: Partial<RankWork> = {}) {
    this.words = more.words ?? new Int32Array(new SharedArrayBuffer(8));
    const workerData: RankWork = { plane, rank, exchanges: 0, ending: 'close', words: this.words, ...more };
    this.worker = new Worker(new URL('./updater-worker.js', import.meta.url), { workerData });
    this.answer = Promise.race([
      once(this.worker, 'message').then(([answer]) => answer as RankAnswer),
      once(this.worker, 'exit').then(() => Promise.reject(new Error('the thread ended without an answer'))),
    ]);
    this.answer.catch(() => {});
  }
  /** It is where the test wants it. */
  async here(): Promise<void> {
    await until('the thread is there', () => Atomics.load(this.words, 0) > 0, 10_000);
  }
  goOn(): void {
    Atomics.store(this.words, 1, 1);
    Atomics.notify(this.words, 1);
  }
}

const fine: RankAnswer = { wrong: null };

for (const name of [...new Set(['cpu', TESTED])]) {
  const onDevice = name !== 'cpu';

  describe(`operators/halo/updater on ${name}`, () => {
    let device: Device | null;
    const parts: Part[] = [];
    const updaters: HaloUpdater[] = [];
    beforeEach(() => {
      device = onDevice ? openDevice(name) : null;
    });
    afterEach(() => {
      for (const each of [...updaters.splice(0), ...parts.splice(0)]) each.close();
      device?.close();
    });

    const part = (plane: Plane, rank: number): Part => {
      const made = new Part(plane, rank, device);
      parts.push(made);
      return made;
    };
    const updater = ({ shared }: Plane, rank: number): HaloUpdater => {
      const made = new HaloUpdater(shared, rank, device ? { device } : {});
      updaters.push(made);
      return made;
    };
    /** All ranks of a plane, here. */
    const together = (columns: number, rows: number) => {
      const all = plane(columns, rows);
      const ranks = Array.from({ length: columns * rows }, (_, rank) => rank);
      return { plane: all, parts: ranks.map((rank) => part(all, rank)), updaters: ranks.map((r) => updater(all, r)) };
    };
    const thread = (plane: Plane, rank: number, more: Partial<RankWork> = {}) =>
      new RankThread(plane, rank, { device: name, ...more });
    /** Starts and waits on every rank. */
    const exchange = async (parts: Part[], updaters: HaloUpdater[], n: number) => {
      for (const [rank, each] of updaters.entries()) each.start(parts[rank]!.fill(n).quantities);
      for (const each of updaters) expect(await each.wait({ timeoutMs: 10_000 })).to.equal(true);
      for (const each of parts) expect(await each.wrong(n)).to.equal(null);
    };

    describe('threads', () => {
      for (const [columns, rows, exchanges, async] of [
        [2, 1, onDevice ? 300 : 20_000, false],
        [2, 2, onDevice ? 100 : 3000, false],
        [3, 1, onDevice ? 100 : 1000, true],
      ] as const) {
        it(`${columns}×${rows} ranks make ${exchanges} exchanges, ${async ? 'awaited' : 'blocking'}`, async function () {
          this.timeout(60_000);
          const all = plane(columns, rows);
          const threads = all.shared.neighbours.map((_, rank) => thread(all, rank, { exchanges, async }));
          for (const each of threads) expect(await each.answer).to.deep.equal(fine);
        });
      }

      it('the main thread is a rank, too', async () => {
        const all = plane(2, 1);
        const [mine, here] = [part(all, 0), updater(all, 0)];
        const there = thread(all, 1, { exchanges: 50 });
        for (let n = 1; n <= 50; n++) {
          here.start(mine.fill(n).quantities);
          mine.spoil();
          expect(await here.wait()).to.equal(true);
          expect(await mine.wrong(n)).to.equal(null);
        }
        expect(await there.answer).to.deep.equal(fine);
      });

      it('one that closes at once is not missed by who is a little late', async () => {
        const shortLived = Array.from({ length: onDevice ? 20 : 500 }, () => plane(2, 1));
        const last = plane(2, 1);
        const threads = [0, 1].map((rank) => thread(last, rank, { shortLived, exchanges: 1 }));
        for (const each of threads) expect(await each.answer).to.deep.equal(fine);
      });

      it('one that fails fails all, also those far away, with its own code and cause', async () => {
        const all = plane(5, 1);
        const others = [0, 2, 3, 4].map((rank) => thread(all, rank, { exchanges: 3, ending: 'goOn' }));
        const failing = thread(all, 1, { exchanges: 3, ending: 'fail' });
        expect(await failing.answer).to.deep.equal(fine);
        for (const each of others) {
          expect((await each.answer).error).to.deep.equal({
            code: 'ERR_HOTSLOT_RANGE',
            message: 'rank 1 failed in exchange 3: the sea is dry',
            cause: 'the sea is dry',
          });
        }
      });

      it('one that closes early is missed by name, and not before', async () => {
        const all = plane(3, 1);
        const [mine, here] = [part(all, 2), updater(all, 2)];
        const other = thread(all, 0, { exchanges: 2, ending: 'goOn' });
        const closing = thread(all, 1, { exchanges: 2, ending: 'close' });
        for (let n = 1; n <= 2; n++) {
          expect(await here.update(mine.fill(n).quantities)).to.equal(true);
          expect(await mine.wrong(n)).to.equal(null);
        }
        const error = await rejection(here.update(mine.fill(3).quantities));
        const { wrong, error: met } = await other.answer;
        expect([wrong, met!.code, error.code]).to.deep.equal([null, ...Array(2).fill('ERR_HOTSLOT_STATE_CLOSED')]);
        for (const { message } of [error, met!])
          expect(message).to.match(
            /rank 1 closed before it sent what exchange 3 of rank [02] waits for over edge [NS]?[EW]: close/,
          );
        expect(await closing.answer).to.deep.equal(fine);
        expect(refusal(() => here.start(mine.quantities)).message).to.match(/failed in exchange 3: rank 1 closed/);
      });

      for (const ending of ['sleep', 'spin', 'throw'] as const) {
        const doing = {
          sleep: 'is terminated while it sleeps',
          spin: 'is terminated while it computes',
          throw: 'throws and ends',
        }[ending];
        it(`one that ${doing} is lost, and everybody is told`, async () => {
          const all = plane(5, 1);
          const [mine, here] = [part(all, 0), updater(all, 0)];
          const far = [2, 3].map((rank) => thread(all, rank, { exchanges: 1, ending: 'goOn' }));
          const absent = updater(all, 4);
          const its = part(all, 4);
          const lost = thread(all, 1, { exchanges: 1, ending });
          lost.worker.on('error', () => {});
          for (const [updater, part] of [
            [here, mine],
            [absent, its],
          ] as const)
            updater.start(part.fill(1).quantities);
          expect([await here.wait(), await absent.wait()]).to.deep.equal([true, true]);
          if (ending !== 'throw') {
            await lost.here();
            await lost.worker.terminate();
          }
          const error = await rejection(here.update(mine.fill(2).quantities));
          expect(error.code).to.equal('ERR_HOTSLOT_THREAD_LOST');
          expect(error.message).to.match(
            /the thread of rank 1 ended before it sent what exchange 2 of rank [02] waits for/,
          );
          for (const each of far) expect((await each.answer).error?.code).to.equal('ERR_HOTSLOT_THREAD_LOST');
          expect(refusal(() => absent.start(its.quantities)).code).to.equal('ERR_HOTSLOT_THREAD_LOST');
        });
      }

      it('one that is terminated while it waits is missed only for what it had not sent', async () => {
        const all = plane(2, 1);
        const [mine, here] = [part(all, 0), updater(all, 0)];
        const lost = thread(all, 1, { exchanges: 1, ending: 'wait' });
        expect(await here.update(mine.fill(1).quantities)).to.equal(true);
        await lost.here();
        await lost.worker.terminate();
        expect(await here.update(mine.fill(2).quantities)).to.equal(true);
        expect(await mine.wrong(2)).to.equal(null);
        const error = await rejection(here.update(mine.fill(3).quantities));
        expect(error.code).to.equal('ERR_HOTSLOT_THREAD_LOST');
        expect(error.message).to.match(
          /^the thread of rank 1 ended before it sent what exchange 3 of rank 0 waits for/,
        );
      });

      for (const sleeper of ['this thread', 'a thread']) {
        it(`one that is lost while ${sleeper} sleeps is missed: nobody rings then`, async () => {
          const all = plane(2, 1);
          const lost = thread(all, 1, { exchanges: 1, ending: 'sleep' });
          let error: { code?: unknown } | undefined;
          const asleep = () =>
            until('it sleeps', () => wordsOf(all.shared).bell(0).words[1] === Parked.javascript, 10_000);
          if (sleeper === 'this thread') {
            const [mine, here] = [part(all, 0), updater(all, 0)];
            expect(await here.update(mine.fill(1).quantities)).to.equal(true);
            const waiting = rejection(here.update(mine.fill(2).quantities));
            await lost.here();
            await asleep();
            await lost.worker.terminate();
            error = await waiting;
          } else {
            const other = thread(all, 0, { exchanges: 1, ending: 'goOn' });
            await lost.here();
            await asleep();
            await lost.worker.terminate();
            error = (await other.answer).error;
          }
          expect(error!.code).to.equal('ERR_HOTSLOT_THREAD_LOST');
        });
      }
    });

    describe('ranks of one thread', () => {
      for (const [columns, rows] of [
        [1, 1],
        [1, 2],
        [3, 2],
      ] as const) {
        it(`${columns}×${rows} of them, each its own neighbour where the plane is narrow`, async () => {
          const { parts, updaters } = together(columns, rows);
          for (let n = 1; n <= 10; n++) await exchange(parts, updaters, n);
        });
      }

      it('what was sent may be overwritten at once, in the arrays and by the next exchange', async () => {
        const { parts, updaters } = together(2, 1);
        const [a, b] = updaters as [HaloUpdater, HaloUpdater];
        a.start(parts[0]!.fill(1).quantities);
        parts[0]!.spoil();
        b.start(parts[1]!.fill(1).quantities);
        parts[1]!.spoil();
        // The first rank's part has to have left, on a device too, before it can arrive.
        await until('the first one has sent', () => a.progress());
        expect(await b.wait()).to.equal(true);
        expect(await parts[1]!.wrong(1)).to.equal(null);
        b.start(parts[1]!.fill(2).quantities);
        await until('the second one has sent', () => b.progress());
        expect(await a.wait()).to.equal(true);
        expect(await parts[0]!.wrong(1)).to.equal(null);
        a.start(parts[0]!.fill(2).quantities);
        expect([await a.wait(), await b.wait()]).to.deep.equal([true, true]);
        expect([await parts[0]!.wrong(2), await parts[1]!.wrong(2)]).to.deep.equal([null, null]);
        expect([a.exchange, b.exchange]).to.deep.equal([2, 2]);
      });

      it('update() is both', async () => {
        const { parts, updaters } = together(2, 1);
        const done = updaters.map((each, rank) => each.update(parts[rank]!.fill(1).quantities));
        expect(await Promise.all(done)).to.deep.equal([true, true]);
        expect(await parts[0]!.wrong(1)).to.equal(null);
      });

      it('what a rank sent before it closed is received', async () => {
        const { parts, updaters } = together(2, 1);
        const [a, b] = updaters as [HaloUpdater, HaloUpdater];
        for (const [rank, each] of updaters.entries()) each.start(parts[rank]!.fill(1).quantities);
        await until('both have sent', () => a.progress() && b.progress());
        expect(await a.wait()).to.equal(true);
        a.close();
        expect(await b.wait()).to.equal(true);
        expect(await parts[1]!.wrong(1)).to.equal(null);
        b.start(parts[1]!.fill(2).quantities);
        expect((await rejection(b.wait())).message).to.match(/rank 0 closed before it sent what exchange 2 of rank 1/);
      });

      it('a time-out is an answer, and the exchange goes on', async () => {
        const { parts, updaters } = together(2, 1);
        const [a, b] = updaters as [HaloUpdater, HaloUpdater];
        a.start(parts[0]!.fill(1).quantities);
        expect([await a.wait({ timeoutMs: 0 }), await a.wait({ timeoutMs: 5 })]).to.deep.equal([false, false]);
        const waiting = a.wait();
        b.start(parts[1]!.fill(1).quantities);
        expect([await b.wait(), await waiting]).to.deep.equal([true, true]);
        expect(await parts[0]!.wrong(1)).to.equal(null);
      });

      it('a signal ends the wait, not the exchange', async () => {
        const { parts, updaters } = together(2, 1);
        const [a, b] = updaters as [HaloUpdater, HaloUpdater];
        a.start(parts[0]!.fill(1).quantities);
        const control = new AbortController();
        const waiting = rejection(a.wait({ signal: control.signal }));
        control.abort(new Error('enough'));
        expect((await waiting).message).to.equal('enough');
        expect((await rejection(a.wait({ signal: AbortSignal.abort(new Error('never')) }))).message).to.equal('never');
        b.start(parts[1]!.fill(1).quantities);
        expect([await a.wait(), await b.wait()]).to.deep.equal([true, true]);
      });

      it('a wait takes its listener with it, however it ends', async () => {
        const ends: Record<string, (a: HaloUpdater, b: HaloUpdater, of: Part, control: AbortController) => void> = {
          arrival: (_a, b, of) => b.start(of.fill(1).quantities),
          abort: (_a, _b, _of, control) => control.abort(),
          failure: (_a, b) => b.fail(new Error('no')),
          closing: (a) => a.close(),
          'time-out': () => {},
        };
        for (const [how, end] of Object.entries(ends)) {
          const { parts, updaters } = together(2, 1);
          const [a, b] = updaters as [HaloUpdater, HaloUpdater];
          const control = new AbortController();
          const listeners = () => getEventListeners(control.signal, 'abort').length;
          a.start(parts[0]!.fill(1).quantities);
          const waiting = a.wait({ signal: control.signal, timeoutMs: how === 'time-out' ? 5 : 10_000 });
          const ended = waiting.then(String, () => 'thrown');
          expect(listeners(), how).to.equal(1);
          end(a, b, parts[1]!, control);
          expect(await ended, how).to.equal({ arrival: 'true', 'time-out': 'false' }[how] ?? 'thrown');
          expect(listeners(), how).to.equal(0);
        }
      });

      it('the main thread answers what needs no waiting and refuses to block', async () => {
        const { parts, updaters } = together(2, 1);
        const [a, b] = updaters as [HaloUpdater, HaloUpdater];
        a.start(parts[0]!.fill(1).quantities);
        expect(a.waitSync({ timeoutMs: 0 })).to.equal(false);
        expect(refusal(() => a.waitSync()).code).to.equal('ERR_HOTSLOT_STATE_MAIN_THREAD');
        b.start(parts[1]!.fill(1).quantities);
        await until('both have sent', () => a.progress() && b.progress());
        expect([a.waitSync(), b.waitSync()]).to.deep.equal([true, true]);
        expect(await parts[0]!.wrong(1)).to.equal(null);
      });
    });

    describe('failing', () => {
      it('whoever leaves rings all, and an abort its own', async () => {
        const { parts, updaters, plane: all } = together(4, 1);
        const counts = () => updaters.map((_, rank) => wordsOf(all.shared).bell(rank).read());
        const rungBy = (call: () => void) => {
          const before = counts();
          call();
          return counts().map((count, rank) => count - before[rank]!);
        };
        updaters[1]!.start(parts[1]!.fill(1).quantities);
        const control = new AbortController();
        const waiting = rejection(updaters[1]!.wait({ signal: control.signal }));
        expect(rungBy(() => control.abort(new Error('enough')))).to.deep.equal([0, 1, 0, 0]);
        await waiting;
        expect(rungBy(() => updaters[0]!.close())).to.deep.equal([1, 1, 1, 1]);
        expect(rungBy(() => updaters[2]!.fail(new Error('no')))).to.deep.equal([1, 1, 1, 1]);
        expect(rungBy(() => updaters[2]!.close())).to.deep.equal([0, 0, 0, 0]);
        expect(rungBy(() => failHaloExchange(all.shared, new Error('no')))).to.deep.equal([1, 1, 1, 1]);
      });

      it('what was sent before a failure is received; what was not is missed', async () => {
        const { parts, updaters } = together(2, 1);
        const [a, b] = updaters as [HaloUpdater, HaloUpdater];
        for (const [rank, each] of updaters.entries()) each.start(parts[rank]!.fill(1).quantities);
        await until('both have sent', () => a.progress() && b.progress());
        a.fail(new Error('no'));
        expect(await b.wait()).to.equal(true);
        expect(await parts[1]!.wrong(1)).to.equal(null);
        expect((await rejection(b.wait())).message).to.equal('rank 0 failed in exchange 1: no');
        expect(refusal(() => b.start(parts[1]!.quantities)).message).to.equal('rank 0 failed in exchange 1: no');
      });

      it('the first failure wins; after it everything throws it, and closing is fine', async () => {
        const { parts, updaters } = together(3, 1);
        const [a, b, c] = updaters as [HaloUpdater, HaloUpdater, HaloUpdater];
        a.start(parts[0]!.fill(1).quantities);
        const waiting = rejection(a.wait());
        b.fail(new Error('first'));
        c.fail(new Error('second'));
        const error = await waiting;
        expect([error.code, error.message]).to.deep.equal([
          'ERR_HOTSLOT_STATE_CLOSED',
          'rank 1 failed before its first exchange: first',
        ]);
        expect((error.cause as Error).message).to.equal('first');
        for (const each of updaters) {
          for (const call of [() => each.start(parts[0]!.quantities), () => each.waitSync()])
            expect(refusal(call).message).to.equal(error.message);
          each.close();
          each.close();
        }
      });

      it('from outside, for a rank that never came', async () => {
        const all = plane(2, 1);
        const [mine, here] = [part(all, 0), updater(all, 0)];
        here.start(mine.fill(1).quantities);
        const waiting = rejection(here.wait());
        failHaloExchange(structuredClone(all.shared), new TypeError('its module does not load'));
        expect((await waiting).message).to.equal('the halo exchange was ended from outside: its module does not load');
      });

      it('a failure that cannot be written as it is still arrives', async () => {
        const { parts, updaters } = together(2, 1);
        const error: Error & { self?: unknown } = new Error('x'.repeat(10_000), { cause: { big: 1n } });
        updaters[1]!.fail(error);
        expect(refusal(() => updaters[0]!.start(parts[0]!.quantities)).message).to.match(/^rank 1 failed.*: x{100}/);
      });

      it('closing releases the own waiter', async () => {
        const { parts, updaters } = together(2, 1);
        updaters[0]!.start(parts[0]!.fill(1).quantities);
        const waiting = rejection(updaters[0]!.wait());
        updaters[0]!.close();
        expect([(await waiting).code, (await waiting).message]).to.deep.equal([
          'ERR_HOTSLOT_STATE_CLOSED',
          'this HaloUpdater of rank 0 is closed',
        ]);
      });
    });

    describe('refusals', () => {
      it('wrong moments', async () => {
        const { parts, updaters, plane: all } = together(2, 1);
        const [a, b] = updaters as [HaloUpdater, HaloUpdater];
        const code = (call: () => unknown) => refusal(call).code;
        expect(code(() => a.waitSync())).to.equal('ERR_HOTSLOT_STATE_EMPTY');
        expect((await rejection(a.wait())).message).to.equal(
          'rank 0 has no exchange under way: start() one before wait()',
        );
        expect(a.progress(), 'nothing to send').to.equal(true);
        a.start(parts[0]!.fill(1).quantities);
        expect(refusal(() => a.start(parts[0]!.quantities)).message).to.equal(
          'exchange 1 of rank 0 is under way: wait() for it before the next start()',
        );
        const waiting = a.wait();
        expect((await rejection(a.wait())).code).to.equal('ERR_HOTSLOT_STATE_BUSY');
        b.start(parts[1]!.fill(1).quantities);
        expect([await waiting, await b.wait()]).to.deep.equal([true, true]);
        expect(refusal(() => updater(all, 1)).message).to.match(/rank 1 is in use by another HaloUpdater/);
        b.close();
        expect(refusal(() => updater(all, 1)).message).to.match(/rank 1 was used by another HaloUpdater/);
        expect(code(() => b.start(parts[1]!.quantities))).to.equal('ERR_HOTSLOT_STATE_CLOSED');
        expect((await rejection(b.wait())).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
        b.fail(new Error('too late'));
        b[Symbol.dispose]();
      });

      it('other quantities, and nothing has happened', async () => {
        const { parts, updaters } = together(2, 1);
        const good = parts[0]!.fill(1).quantities;
        for (const bad of [
          [good[0]!],
          [good[0]!, { data: new Float32Array(1000) }],
          [good[0]!, { ...good[1]!, shape: [1] }],
        ])
          expect(refusal(() => updaters[0]!.start(bad)).code).to.match(/ERR_HOTSLOT_(ARGUMENT|RANGE)/);
        expect(refusal(() => updaters[0]!.start(good, good)).message).to.include('takes no y');
        expect(updaters[0]!.exchange).to.equal(0);
        await exchange(parts, updaters, 1);
        expect(refusal(() => updaters[1]!.start([])).code).to.equal('ERR_HOTSLOT_RANGE');
        await exchange(parts, updaters, 2);
      });

      it('options', async () => {
        const all = plane(1, 1);
        const one = updater(all, 0);
        one.start(part(all, 0).fill(1).quantities);
        for (const timeoutMs of [-1, Number.NaN, '1' as unknown as number])
          expect(refusal(() => one.waitSync({ timeoutMs })).message).to.include('timeoutMs must be a number of milli');
        expect((await rejection(one.wait({ signal: 1 as unknown as AbortSignal }))).code).to.equal(
          'ERR_HOTSLOT_ARGUMENT',
        );
        expect(refusal(() => one.waitSync({ timeout: 1 } as object)).message).to.include("unknown option 'timeout'");
        expect(refusal(() => new HaloUpdater(all.shared, 1)).message).to.include('rank must be a whole number');
        expect(refusal(() => new HaloUpdater({} as never, 0)).message).to.include('what shareHaloExchange() returned');
        expect(refusal(() => new HaloUpdater(plane(1, 1).shared, 0, { device: 'host:0' as never })).code).to.equal(
          'ERR_HOTSLOT_ARGUMENT',
        );
      });
    });

    if (onDevice) onDevices(name, together);
  });
}

/** What devices of this kind make with `method` during a call. */
function making<K extends 'createStream' | 'registerHost', T>(
  device: Device,
  method: K,
  call: () => T,
): [T, ReturnType<Device[K]>[]] {
  const kind = Object.getPrototypeOf(device) as Device;
  const own = kind[method] as (...given: unknown[]) => ReturnType<Device[K]>;
  const made: ReturnType<Device[K]>[] = [];
  const spy = function (this: Device, ...given: unknown[]) {
    const each = own.apply(this, given);
    made.push(each);
    return each;
  };
  Object.assign(kind, { [method]: spy });
  try {
    return [call(), made];
  } finally {
    Object.assign(kind, { [method]: own });
  }
}

/** What only arrays on a device can do. */
function onDevices(
  name: string,
  together: (columns: number, rows: number) => { parts: Part[]; updaters: HaloUpdater[]; plane: Plane },
): void {
  describe('stream order', () => {
    it('start() is behind the current stream and waits for nothing; progress() sends when the device is through', async () => {
      const device = openDevice(name);
      const { parts, updaters } = together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      b.start(parts[1]!.fill(1).quantities);
      const latch = new Latch(device);
      latch.hold(device.currentStream);
      a.start(parts[0]!.fill(1).quantities);
      parts[0]!.spoil();
      expect([a.progress(), a.waitSync({ timeoutMs: 0 })]).to.deep.equal([false, false]);
      expect(refusal(() => a.waitSync()).code).to.equal('ERR_HOTSLOT_STATE_MAIN_THREAD');
      expect(await a.wait({ timeoutMs: 1 })).to.equal(false);
      latch.open();
      await until('it has sent', () => a.progress());
      expect([await a.wait(), await b.wait()]).to.deep.equal([true, true]);
      expect([await parts[0]!.wrong(1), await parts[1]!.wrong(1)]).to.deep.equal([null, null]);
      latch[Symbol.dispose]();
      device.close();
    });

    it('what arrives is behind and before the work of the stream that waits', async () => {
      const device = openDevice(name);
      const { parts, updaters } = together(1, 1);
      const [a] = updaters as [HaloUpdater];
      const side = device.createStream();
      a.start(parts[0]!.fill(1).quantities);
      await until('it has sent', () => a.progress());
      const latch = new Latch(device);
      const copies = parts[0]!.quantities.map(({ data }) =>
        device.allocate({ shape: [(data as { length?: number; size?: number }).size!], dtype: 'float64' }),
      );
      // What the stream holds back spoils the halos once it runs: the arrivals have to come later, and the copies later still.
      await device.currentStream.synchronize();
      latch.hold(side);
      await device.withStream(side, async () => {
        parts[0]!.spoil();
        expect(a.waitSync(), 'enqueued, not done').to.equal(true);
      });
      for (const [q, { data }] of parts[0]!.quantities.entries()) side.copy(copies[q]!, data as never);
      latch.open();
      await side.synchronize();
      for (const [q, { data }] of parts[0]!.quantities.entries()) device.currentStream.copy(data as never, copies[q]!);
      expect(await parts[0]!.wrong(1)).to.equal(null);
      for (const each of [...copies, side, latch]) each[Symbol.dispose]();
      device.close();
    });

    it('a capture is refused, and the exchange is none the worse', async () => {
      const device = openDevice(name);
      const { parts, updaters } = together(1, 1);
      const [a] = updaters as [HaloUpdater];
      const stream = device.createStream();
      parts[0]!.fill(1);
      await device.currentStream.synchronize();
      stream.beginCapture();
      device.withStream(stream, () =>
        expect(refusal(() => a.start(parts[0]!.quantities)).code).to.equal('ERR_HOTSLOT_STATE_CAPTURE'),
      );
      stream.endCapture().close();
      a.start(parts[0]!.quantities);
      expect(await a.wait()).to.equal(true);
      expect(await parts[0]!.wrong(1)).to.equal(null);
      stream.close();
      device.close();
    });

    it('a capture that begins while a rank waits ends the wait, and neither the exchange nor the capture', async () => {
      const device = openDevice(name);
      const { parts, updaters } = together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      const [stream, other] = [device.createStream(), device.createStream()];
      const tensor = device.allocate({ shape: [1] });
      const latch = new Latch(device);
      using elsewhere = new HaloUpdater(plane(2, 1).shared, 0);
      elsewhere.start(new Part(plane(2, 1), 0).fill(1).quantities);
      for (const [n, captured] of [stream, other].entries()) {
        for (const each of parts) each.fill(n + 1);
        await device.currentStream.synchronize();
        // On the stream that the wait is for, and on one that has nothing to do with it; what a sends is not packed by then.
        await latch.shut();
        latch.hold(stream);
        const waiting = device.withStream(stream, () => {
          a.start(parts[0]!.quantities);
          return rejection(a.wait());
        });
        if (n === 0) b.start(parts[1]!.quantities);
        captured.beginCapture();
        if (n === 1) expect(refusal(() => b.start(parts[1]!.quantities)).code).to.equal('ERR_HOTSLOT_STATE_CAPTURE');
        expect((await waiting).code).to.equal('ERR_HOTSLOT_STATE_CAPTURE');
        expect([a.progress(), await elsewhere.wait({ timeoutMs: 1 })]).to.deep.equal([false, false]);
        captured.fill(tensor, 1);
        const graph = captured.endCapture();
        expect(graph.nodeCount).to.equal(1);
        graph.close();
        latch.open();
        if (n === 1) b.start(parts[1]!.quantities);
        expect([await a.wait(), await b.wait()]).to.deep.equal([true, true]);
        expect([await parts[0]!.wrong(n + 1), await parts[1]!.wrong(n + 1)]).to.deep.equal([null, null]);
      }
      latch[Symbol.dispose]();
      for (const each of [tensor, stream, other, device]) each.close();
    });

    it('H1: a half is not given back before it is read, whatever stream that is behind', async () => {
      const device = openDevice(name);
      const { parts, updaters } = together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      const side = device.createStream();
      const latch = new Latch(device);
      for (const [rank, each] of updaters.entries()) each.start(parts[rank]!.fill(1).quantities);
      await until('both have sent', () => a.progress() && b.progress());
      latch.hold(side);
      expect(device.withStream(side, () => a.waitSync())).to.equal(true);
      expect(b.waitSync()).to.equal(true);
      for (const [rank, each] of updaters.entries()) each.start(parts[rank]!.fill(2).quantities);
      expect(await b.wait({ timeoutMs: 50 })).to.equal(false);
      expect(a.progress()).to.equal(false);
      latch.open();
      expect([await a.wait(), await b.wait()]).to.deep.equal([true, true]);
      expect([await parts[0]!.wrong(2), await parts[1]!.wrong(2)]).to.deep.equal([null, null]);
      for (const each of [side, latch]) each[Symbol.dispose]();
      device.close();
    });

    it('what is packed when its rank closes is sent, and when it has failed not', async () => {
      const device = openDevice(name);
      for (const how of ['close', 'fail'] as const) {
        const [{ parts, updaters }, streams] = making(device, 'createStream', () => together(2, 1));
        const [a, b] = updaters as [HaloUpdater, HaloUpdater];
        for (const each of parts) each.fill(1);
        b.start(parts[1]!.quantities);
        const latch = new Latch(device);
        latch.hold(device.currentStream);
        a.start(parts[0]!.quantities);
        if (how === 'fail') a.fail(new Error('no'));
        latch.open();
        await streams[0]!.synchronize();
        if (how === 'close') {
          a.close();
          expect(await b.wait()).to.equal(true);
          expect(await parts[1]!.wrong(1)).to.equal(null);
        } else expect((await rejection(b.wait())).message).to.equal('rank 0 failed in exchange 1: no');
        latch[Symbol.dispose]();
      }
      device.close();
    });

    it('a buffer stays pinned while its sender is there or may come', () => {
      const device = openDevice(name);
      const all = plane(2, 1);
      const open = (rank: number) => {
        const [made, memories] = making(device, 'registerHost', () => new HaloUpdater(all.shared, rank, { device }));
        const left = { count: memories.length };
        for (const memory of memories) {
          const { close } = memory;
          memory.close = () => {
            left.count--;
            close.call(memory);
          };
        }
        return [made, left] as const;
      };
      const from = (rank: number, sender: number) =>
        all.shared.neighbours[rank]!.filter((there) => there.rank === sender).length;
      const [a, leftByA] = open(0);
      a.close();
      expect(leftByA.count, 'rank 1 may come').to.equal(from(0, 1));
      const [b, leftByB] = open(1);
      expect(leftByA.count, 'rank 1 has come').to.equal(from(0, 1));
      b.close();
      expect([leftByA.count, leftByB.count], 'nobody is left').to.deep.equal([0, 0]);
      device.close();
    });

    it('a device that refuses to pack is the end of the exchange for all', async function () {
      if (errorScope(name) !== 'stream') this.skip();
      const device = openDevice(name);
      const { parts, updaters } = together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      b.start(parts[1]!.fill(1).quantities);
      const waiting = rejection(b.wait());
      parts[0]!.fill(1);
      const stream = device.createStream();
      stream.launch('fail');
      await rejection(stream.synchronize());
      const error = device.withStream(stream, () => refusal(() => a.start(parts[0]!.quantities)));
      expect([error.code, a.exchange]).to.deep.equal(['ERR_HOTSLOT_DEVICE', 0]);
      const { code, message, cause } = await waiting;
      expect([code, message]).to.deep.equal([
        'ERR_HOTSLOT_DEVICE',
        `rank 0 failed before its first exchange: ${error.message}`,
      ]);
      expect((cause as Error).message).to.equal(error.message);
      expect(refusal(() => a.start(parts[0]!.quantities)).message).to.equal(message);
      stream.close();
      device.close();
    });

    it("a device's failure is its rank's, and the neighbours get it as the cause", async function () {
      if (errorScope(name) !== 'stream') this.skip(); // on a GPU a failure is the whole device's
      const device = openDevice(name);
      const { parts, updaters } = together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      b.start(parts[1]!.fill(1).quantities);
      const waiting = rejection(b.wait());
      const stream = device.createStream();
      parts[0]!.fill(1);
      await device.currentStream.synchronize();
      stream.launch('fail');
      let error: unknown;
      try {
        device.withStream(stream, () => a.start(parts[0]!.quantities));
        await a.wait();
      } catch (thrown) {
        error = thrown;
        a.fail(thrown);
      }
      expect((error as { code: string }).code).to.equal('ERR_HOTSLOT_DEVICE');
      expect((await waiting).code).to.equal('ERR_HOTSLOT_DEVICE');
      expect((await waiting).message).to.match(/^rank 0 failed (in exchange \d|before its first exchange): /);
      stream.close();
      device.close();
    });

    it('leaves no handle open, closed in the middle of it too', async () => {
      const device = openDevice(name);
      const round = () => {
        const { parts, updaters } = together(2, 1);
        for (const [rank, each] of updaters.entries()) each.start(parts[rank]!.fill(1).quantities);
        for (const each of [...updaters, ...parts]) each.close();
      };
      // The device keeps what the first one gave back for the next.
      round();
      await device.currentStream.synchronize();
      const before = openHandles();
      const rounds = 20;
      for (let i = 0; i < rounds; i++) {
        round();
        await device.currentStream.synchronize();
      }
      const after = openHandles();
      expect(after.event).to.equal(before.event);
      // A stream or a buffer that is not idle yet is not the next one's.
      for (const kind of ['memory', 'stream']) expect(after[kind]).to.be.below(before[kind]! + rounds);
      device.close();
    });
  });
}

describe('operators/halo/updater: one step at a time', () => {
  const inThread = async (step: Step, of?: Plane): Promise<unknown> => {
    const worker = new Worker(new URL('./updater-step.js', import.meta.url), { workerData: { step, plane: of } });
    try {
      let answer: unknown[] | undefined;
      worker.once('message', (got) => {
        answer = [got];
      });
      worker.once('error', (error) => {
        answer = [error];
      });
      await until('the thread answers', () => answer !== undefined, 10_000);
      return answer![0];
    } finally {
      await worker.terminate();
    }
  };

  it('H4: whatever happens behind a look has rung by the time of the park', async () => {
    for (const what of ['holds', 'failed'] as const)
      expect(await parksBehind(what, 'parkAsync'), what).to.deep.equal([true]);
    for (const step of ['rungHolds', 'rungFailed'] as const) expect(await inThread(step), step).to.deep.equal([true]);
  });

  for (const [what, leaves] of [
    ['closes', (first: HaloUpdater) => first.close()],
    ['fails', (first: HaloUpdater) => first.fail(new Error('no'))],
  ] as const) {
    it(`H5: one that sends and ${what} between a look and the next has been heard`, async () => {
      for (const sync of [false, true])
        await behind(
          'holds',
          ({ first, parts }) => {
            first.start(parts[0].quantities);
            leaves(first);
          },
          async ({ second, parts }) => {
            // Not the failure: that was not there before the look.
            if (sync) expect(refusal(() => second.waitSync()).code).to.equal('ERR_HOTSLOT_STATE_MAIN_THREAD');
            expect(sync ? second.waitSync() : await second.wait()).to.equal(true);
            expect(parts[1].wrongHere(1)).to.equal(null);
          },
        );
    });
  }

  it('H6: one that failed is not missed before somebody has said why, or died over it', async () => {
    for (const explained of [true, false]) {
      const all = plane(2, 1);
      using rank = new HaloUpdater(all.shared, 0);
      rank.start(new Part(all, 0).fill(1).quantities);
      const words = wordsOf(all.shared);
      const note = new Int32Array(all.shared.words.memory, all.shared.words.offset, 1);
      words.claim(1);
      Atomics.store(note, 0, 1);
      words.leave(1, RankState.failed);
      expect(await rank.wait({ timeoutMs: 10 }), 'somebody is writing').to.equal(false);
      if (explained) {
        Atomics.store(note, 0, 0);
        words.fail({ rank: 1, exchange: 0, error: new Error('the reason') });
        words.ringAll();
      }
      const { message } = await rejection(rank.wait());
      if (explained) expect(message).to.equal('rank 1 failed before its first exchange: the reason');
      else expect(message).to.match(/^rank 1 failed before it sent what exchange 1 of rank 0 waits for/);
    }
  });

  it('H6: a rank that failed throws, also when nobody can say why', async () => {
    const all = plane(2, 1);
    using rank = new HaloUpdater(all.shared, 0);
    const { quantities } = new Part(all, 0).fill(1);
    rank.start(quantities);
    const timeoutMs = 10_000;
    const waiting = rejection(rank.wait({ timeoutMs }));
    Atomics.store(new Int32Array(all.shared.words.memory, all.shared.words.offset, 1), 0, 1);
    rank.fail(new Error('lost'));
    const errors = [await waiting, await rejection(rank.wait({ timeoutMs }))];
    for (const call of [() => rank.start(quantities), () => rank.waitSync(), () => rank.progress()])
      errors.push(refusal(call));
    for (const { code, message } of errors)
      expect([code, message]).to.deep.equal(['ERR_HOTSLOT_STATE_CLOSED', 'rank 0 has failed: close it']);
  });

  it('whatever a rank fails with, its neighbours are told', async () => {
    for (const [what, thrown] of Object.entries(oddErrors)) {
      const all = plane(2, 1);
      using a = new HaloUpdater(all.shared, 0);
      using b = new HaloUpdater(all.shared, 1);
      a.start(new Part(all, 0).fill(1).quantities);
      const waiting = rejection(a.wait());
      b.fail(thrown);
      expect((await waiting).message, what).to.match(/^rank 1 failed before its first exchange: /);
      expect((await waiting).cause, what).to.be.instanceOf(Error);
    }
  });

  it('a thread that is being ended fails nobody', async () => {
    const all = plane(2, 1);
    const parts = [0, 1].map((rank) => new Part(all, rank).fill(1));
    using a = new HaloUpdater(all.shared, 0);
    using b = new HaloUpdater(all.shared, 1);
    const addon = native();
    const { moveHalo } = addon;
    const unanswered = () => {
      addon.moveHalo = moveHalo;
      return undefined as unknown as boolean;
    };
    addon.moveHalo = unanswered;
    expect(refusal(() => a.start(parts[0]!.quantities))).to.be.instanceOf(ThreadEnding);
    for (const [rank, each] of [a, b].entries()) each.start(parts[rank]!.quantities);
    addon.moveHalo = unanswered;
    expect(await rejection(a.wait())).to.be.instanceOf(ThreadEnding);
    expect([wordsOf(all.shared).failed, await a.wait(), await b.wait()]).to.deep.equal([false, true, true]);
    expect(parts[0]!.wrongHere(1)).to.equal(null);
  });

  it('a rank is taken and watched at once: by whoever took it, and by nobody else', async () => {
    const all = plane(2, 1);
    const words = wordsOf(all.shared);
    using rank = new HaloUpdater(all.shared, 0);
    const refused = new RankThread(all, 0);
    expect((await refused.answer).error?.code).to.equal('ERR_HOTSLOT_STATE_BUSY');
    await refused.worker.terminate();
    // Behind the first check too; and a thread that is being ended takes none.
    const { absent, open, lost } = RankState;
    expect(await inThread('claims', all)).to.deep.equal([open, 'ThreadEnding', absent, open]);
    expect([words.state(0), words.state(1)]).to.deep.equal([open, lost]);
    expect(rank.exchange).to.equal(0);
  });

  it('a rank of the same thread that has not started is not waited for without a limit', async () => {
    expect(await inThread('notStarted')).to.deep.equal([
      false,
      'ERR_HOTSLOT_STATE_EMPTY',
      'exchange 1 of rank 1 waits for rank 0 of the same thread, which has not started it: start() every rank of a thread ' +
        'before waitSync()',
      true,
      true,
      null,
    ]);
  });

  it('a process waits as long as there is something to wait for, and no longer', () => {
    const script = fileURLToPath(new URL('./updater-process.js', import.meta.url));
    const said = execFileSync(process.execPath, [script], { encoding: 'utf8', timeout: 10_000 });
    expect(said).to.equal('false\ntrue true\n');
  });
});

describe('operators/halo/updater: what is exchanged', () => {
  const field = (more: Partial<QuantityHaloOptions> = {}): QuantityHaloOptions => ({
    nPoints: 2,
    shape: [8, 8],
    origin: [2, 2],
    extent: [4, 4],
    dims: ['i', 'j'],
    dtype: 'float64',
    ...more,
  });

  it('on a cube every halo holds what lies over the edge in space', async () => {
    const [n, points] = [4, 2];
    const shared = shareHaloExchange({ topology: cubedSphereTopology(), x: [field()] });
    /** a number for a place on the cube's surface, in half cells from its middle */
    const at = (face: number, i: number, j: number): number => {
      const { normal, x, y } = cubeFaces[face]!;
      const fold = (along: number) => ({
        side: Math.max(-n, Math.min(n, along)),
        in: Math.max(0, Math.abs(along) - n),
      });
      const [a, b] = [fold(2 * i + 1 - n), fold(2 * j + 1 - n)];
      const place = normal.map((_, d) => normal[d]! * (n - a.in - b.in) + x[d]! * a.side + y[d]! * b.side);
      return place.reduce((sum, each) => sum * 100 + each + 50, 0);
    };
    const parts = cubeFaces.map((_, face) => {
      const data = new Float64Array(64).fill(-1);
      for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) data[(i + points) * 8 + j + points] = at(face, i, j);
      return data;
    });
    const updaters = parts.map((_, rank) => new HaloUpdater(shared, rank));
    for (const [rank, each] of updaters.entries()) each.start([{ data: parts[rank]! }]);
    for (const each of updaters) expect(await each.wait()).to.equal(true);
    for (const [face, data] of parts.entries()) {
      for (let i = -points; i < n + points; i++)
        for (let j = -points; j < n + points; j++) {
          const corner = (i < 0 || i >= n) && (j < 0 || j >= n);
          expect(data[(i + points) * 8 + j + points], `face ${face} at (${i}, ${j})`).to.equal(
            corner ? -1 : at(face, i, j),
          );
        }
    }
    for (const each of updaters) each.close();
  });

  it('lists may change once start() has them', async () => {
    const shared = shareHaloExchange({
      topology: periodicTopology({ layout: [1, 1] }),
      x: [field()],
      y: [field()],
    });
    using one = new HaloUpdater(shared, 0);
    const [u, v] = [new Float64Array(64), new Float64Array(64)];
    for (const data of [u, v]) for (let i = 2; i < 6; i++) for (let j = 2; j < 6; j++) data[i * 8 + j] = 1;
    const [x, y] = [[{ data: u }], [{ data: v }]];
    one.start(x, y);
    for (const list of [x, y]) list[0] = { data: new Float64Array(64) };
    expect(await one.wait()).to.equal(true);
    expect([u, v].map((data) => data.every((value) => value === 1))).to.deep.equal([true, true]);
  });

  it("a vector's components turn with the axes: two turned neighbours get each other's", async () => {
    // Two ranks that meet over E and N, a quarter turn apart: what is u there is v here.
    const topology = {
      ranks: 2,
      neighbours: [
        [{ edge: 'E', rank: 1, edgeThere: 'N', clockwiseRotation: 1 }],
        [{ edge: 'N', rank: 0, edgeThere: 'E', clockwiseRotation: 3 }],
      ],
    } as const;
    const shared = shareHaloExchange({ topology, x: [field()], y: [field()], points: 1 });
    const updaters = [0, 1].map((rank) => new HaloUpdater(shared, rank));
    const of = (rank: number) => ({
      u: new Float64Array(64).fill(1 + 2 * rank),
      v: new Float64Array(64).fill(2 + 2 * rank),
    });
    const parts = [of(0), of(1)];
    for (const [rank, each] of updaters.entries()) each.start([{ data: parts[rank]!.u }], [{ data: parts[rank]!.v }]);
    for (const each of updaters) expect(await each.wait()).to.equal(true);
    const halo = (rank: number, name: 'u' | 'v') => {
      const [i, j] = rank === 0 ? [6, 3] : [3, 6];
      return Math.abs(parts[rank]![name][i * 8 + j]!);
    };
    expect([halo(0, 'u'), halo(0, 'v')]).to.deep.equal([4, 3]);
    expect([halo(1, 'u'), halo(1, 'v')]).to.deep.equal([2, 1]);
    expect(refusal(() => updaters[0]!.start([{ data: parts[0]!.u }])).message).to.include('needs y too');
    for (const each of updaters) each.close();
  });

  it('is refused where it does not fit, naming ranks and edges', () => {
    const topology = periodicTopology({ layout: [2, 1] });
    const says = (options: object) => refusal(() => shareHaloExchange({ topology, x: [field()], ...options })).message;
    expect(says({ x: [] })).to.include('at least one HaloExchangeSpec');
    expect(says({ x: [field(), field({ dtype: 'float32' })] })).to.include('one buffer holds one dtype');
    expect(says({ points: 3 })).to.include('points');
    expect(says({ points: 0 })).to.include('points');
    expect(says({ x: [field({ nPoints: 0 })] })).to.include('exchange at least one point');
    expect(says({ typo: 1 })).to.include("unknown option 'typo'");
    expect(says({ topology: { ranks: 3, neighbours: topology.neighbours } })).to.include('a list for each of 3 ranks');
    const [mine, theirs] = topology.neighbours as [object[], object[]];
    expect(says({ topology: { ranks: 2, neighbours: [mine, theirs.slice(1)] } })).to.match(
      /neighbours are mutual: over edge . rank . meets rank .'s edge ., turned 0 times, but that edge meets nobody/,
    );
    expect(says({ topology: { ranks: 2, neighbours: [[...mine, mine[0]], theirs] } })).to.include(
      'rank 0 has two neighbours over edge',
    );
    expect(says({ topology: cubedSphereTopology(), x: [field({ shape: [8, 6], extent: [4, 2] })] })).to.match(
      /rank \d's edge \w at rank \d's edge \w: x\[0\] arrives as \[\d,\d\], its halo there is \[\d,\d\] of \[i,j\]/,
    );
    expect(
      says({
        x: [field({ shape: [8, 8, 2 ** 44], origin: [2, 2, 0], extent: [4, 4, 2 ** 44], dims: ['i', 'j', 'k'] })],
      }),
    ).to.include('bytes of shared memory');
    // What is not there cannot be crossed: the whole compute domain would arrive.
    for (const dims of [
      ['i', 'k'],
      ['lon', 'lat'],
    ])
      expect(says({ x: [field({ dims })] })).to.match(
        /x\[0\] has neither '[ij]' nor '[ij]_interface' in \[.*edge \w+ of/,
      );
    expect(says({ topology: undefined })).to.include('topology is { ranks, neighbours }');
  });

  it('of a line of cells goes round a ring', async () => {
    const n = 3;
    const line = { nPoints: 2, shape: [9], origin: [2], extent: [5], dims: ['i'], dtype: 'int32' as const };
    const shared = shareHaloExchange({ topology: periodicTopology({ layout: [n] }), x: [line] });
    const arrays = Array.from({ length: n }, (_, rank) => new Int32Array(9).map((_, i) => 5 * rank + i - 2));
    const ranks = arrays.map((_, rank) => new HaloUpdater(shared, rank));
    for (const [rank, updater] of ranks.entries()) {
      const data = arrays[rank]!;
      for (const halo of [0, 1, 7, 8]) data[halo] = -1;
      updater.start([{ data }]);
      data.fill(-2, 2, 7);
    }
    for (const [rank, updater] of ranks.entries()) {
      expect(await updater.wait()).to.equal(true);
      const at = (i: number) => (5 * rank + i + 15) % 15;
      expect([...arrays[rank]!]).to.deep.equal([at(-2), at(-1), -2, -2, -2, -2, -2, at(5), at(6)]);
      updater.close();
    }
  });

  it('goes through postMessage, specifications that are objects too', () => {
    const topology = periodicTopology({ layout: [1, 1] });
    const shared = structuredClone(shareHaloExchange({ topology, x: [field()] }));
    const updater = new HaloUpdater(shared, 0);
    updater.start([{ data: new Float64Array(64) }]);
    expect(updater.waitSync()).to.equal(true);
    updater.close();
  });

  it('exchange numbers may pass what a word can hold', () => {
    const words = new ExchangeWords(allocateShared('words', exchangeWordsBytes(1, 1), 64), 1, 1);
    for (const n of [2 ** 30 - 1, 2 ** 30, 2 ** 30 + 1, 2 ** 31, 2 ** 40 + 3]) {
      expect([words.isEmpty(0, n), words.holds(0, n)]).to.deep.equal([true, false]);
      words.fill(0, n);
      expect([words.isEmpty(0, n), words.holds(0, n), words.isEmpty(0, n + 1)]).to.deep.equal([false, true, true]);
      expect([words.holds(0, n - 2), words.holds(0, n + 2)]).to.deep.equal([false, false]);
      words.empty(0, n);
    }
  });
});
