/**
 * Tests a training run on a family's software driver. Each run has one failing driver call. Errors
 * or warnings must name the call, and every object must be closed.
 */
import { expect } from 'chai';
import { itAll, setting } from '../rig/setting.ts';
import type { Outcome } from './every-call-worker.ts';
import { type Mode, run } from './software.ts';

/** Time limit of the worker in ms, slightly below the test's own limit. */
const limit = setting({ short: 110_000, all: 590_000, long: 1_190_000 });

/**
 * Calls that may fail once without an error or warning, each with the reason why that does no harm.
 */
const harmless: Record<string, string> = {
  cuCtxGetCurrent: 'the context is then set again',
  hipGetDevice: 'the device is then set again',
  cuThreadExchangeStreamCaptureMode: 'only captures of other libraries in the process need it',
  hipThreadExchangeStreamCaptureMode: 'only captures of other libraries in the process need it',
  cuStreamQuery: 'asked for memory that was let go: it is asked again, and kept meanwhile',
  hipStreamQuery: 'asked for memory that was let go: it is asked again, and kept meanwhile',
  cuEventQuery: 'likewise',
  hipEventQuery: 'likewise',
  cuEventCreate:
    'marks the end of what may touch let-go memory; the stream itself is asked instead',
  hipEventCreateWithFlags: 'likewise',
  cuEventRecord: 'likewise',
  hipEventRecord: 'likewise',
  cuGraphUpload: 'the first replay uploads the graph',
  hipGraphUpload: 'likewise',
  zexCounterBasedEventCreate2: 'an event is made the older way instead, or marks as above',
  zeEventQueryStatus: 'asked again by the next look',
  zeEventHostReset: 'the event is set aside and reset later',
  // If the driver refuses to free an object, Hotslot tries once more, and reports only a second
  // failure.
  cuMemFree: 'offered again',
  cuMemFreeHost: 'offered again',
  cuMemHostUnregister: 'offered again',
  cuStreamDestroy: 'offered again',
  cuEventDestroy: 'offered again',
  cuGraphDestroy: 'offered again',
  cuGraphExecDestroy: 'offered again',
  cuCtxSetCurrent: 'offered again with the context set',
  hipFree: 'offered again',
  hipHostFree: 'offered again',
  hipHostUnregister: 'offered again',
  hipStreamDestroy: 'offered again',
  hipEventDestroy: 'offered again',
  hipGraphDestroy: 'offered again',
  hipGraphExecDestroy: 'offered again',
  hipSetDevice: 'offered again with the device set',
  zeCommandListDestroy: 'offered again',
  zeCommandQueueDestroy: 'offered again',
  zeEventDestroy: 'offered again',
  zeEventPoolDestroy: 'offered again',
  zeMemFree: 'offered again',
  zeGraphDestroyExt: 'offered again',
  zeExecutableGraphDestroyExt: 'offered again',
  zexDriverReleaseImportedPointer: 'offered again',
};

/**
 * Declares the tests. Of each call the first `most` occurrences fail, one in each run, and also the
 * last. If `most` is above 1, the one in the middle and the last but one fail as well. The longest
 * runs repeat this with a thread for each role, which takes three times as long as inline.
 */
export function failsEveryCall(mode: Mode, most: number): void {
  for (const placement of setting({
    short: ['inline'],
    all: ['inline'],
    long: ['inline', 'spread'],
  })) {
    const title = `a training run, ${placement}, names each driver call that fails, and closes every object`;
    itAll(title, async () => {
      const args = [
        '--no-warnings',
        'dist/test/drivers/every-call-worker.js',
        String(most),
        placement,
      ];
      const { stdout, stderr, status, signal } = await run(mode, args, {}, limit);
      expect({ status, signal }, stderr.slice(-3000)).to.deep.equal({ status: 0, signal: null });
      const lines = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as object);
      const { made, waits } = lines[0] as { made: Record<string, number>; waits: string };
      // A GPU makes some calls wait for running work. No such call may block a thread while another
      // stream is busy.
      const long = waits.split('\n').filter((line) =>
        line
          .split(' ')
          .slice(1)
          .some((us) => Number(us) > 5000),
      );
      expect(long, 'calls that blocked a thread for more than 5 ms').to.deep.equal([]);
      expect(Object.keys(made).length).to.be.at.least(15);
      // The Level Zero driver has its own threads.
      const least = mode.driver === 'level_zero' ? 16 : 2;
      expect((lines.at(-1) as { threads: number }).threads, 'threads left').to.be.at.most(least);
      const outcomes = lines.slice(1, -1) as Outcome[];
      const wrong: unknown[] = [];
      const fired = new Set<string>();
      for (const each of outcomes) {
        const { call, named, warned, error, closing, leaked, ms } = each;
        if (!each.fired) continue;
        fired.add(call);
        const told =
          named === call ||
          warned.includes(call) ||
          warned.some((text) => text.includes('kept for good'));
        // If the exchange of capture modes fails, a capture that an earlier failure left open may
        // reject the call (900). A query of another thread may also break a capture, whose next call
        // then fails (901).
        const exchanges = call.endsWith('ThreadExchangeStreamCaptureMode');
        const barred = exchanges && /\(90[01]\)/.test(error ?? '');
        if (!told && !barred && !(error === null && call in harmless))
          wrong.push({ ...each, why: 'not told' });
        if (closing !== null) wrong.push({ ...each, why: 'not closed' });
        if (ms > 10_000) wrong.push({ ...each, why: 'took too long' });
        // Only objects that the driver refused to free may leak. They are of one kind, and each has
        // a warning.
        const kinds = Object.keys(leaked).filter((kind) => kind !== 'allocation_bytes');
        const most = warned.length;
        if (kinds.length > 1 || kinds.some((kind) => (leaked[kind] as number) > most))
          wrong.push({ ...each, why: 'leaked' });
      }
      expect(wrong).to.deep.equal([]);
      const silent = Object.keys(made).filter(
        (call) => !fired.has(call) && (made[call] as number) > 1,
      );
      expect(silent, 'calls that never failed').to.deep.equal([]);
    });
  }
}
