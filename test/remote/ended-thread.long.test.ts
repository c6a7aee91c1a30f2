/**
 * Terminates the learner's thread before and after its native calls and its changes of the session
 * offsets. The thread that takes over must store every row once.
 */
import { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { Spans } from '../../src/engine/trace/spans.ts';
import { RateLimiter, ReplayBuffer, type TrajectoryBuffer } from '../../src/index.ts';
import { layoutText } from '../../src/net/remote/layout.ts';
import type { RemoteThreadReport } from '../../src/net/remote/remote-thread.ts';
import { SessionOffsets } from '../../src/net/remote/session-offsets.ts';
import { rowBytesOf } from '../../src/store/lanes/packed-rows.ts';
import { internalsOfLimiter } from '../../src/store/rate-limiter.ts';
import { describeAll, itAll, itLonger, setting } from '../rig/setting.ts';
import { type EndedTask, EndWord } from './moments.ts';
import {
  bufferOf,
  expectWhole,
  host,
  type Kind,
  keep,
  leash,
  newRun,
  sharedServer,
  untilAsked,
} from './runs.ts';

/**
 * More messages than one read returns, so that the thread also makes a second read and sends
 * acknowledgements.
 */
const ADDS = 5;
/**
 * The thread is terminated at every STRIDEth moment from FIRST on. A moment with an even number is
 * before a call. One with an odd number is after a call, before its result is used.
 */
const FIRST = setting({ short: 1, all: 1, long: 0 });
const STRIDE = {
  rows: setting({ short: 13, all: 17, long: 1 }),
  steps: setting({ short: 13, all: 25, long: 1 }),
};

describeAll('remote collectors whose learner thread is terminated', function () {
  this.timeout(setting({ short: 120_000, all: 180_000 }));
  const shared = sharedServer();

  /** Creates a learner whose threads the test starts one after the other. */
  function learner(kind: Kind) {
    const [run, words] = [newRun(), new Int32Array(new SharedArrayBuffer(16))];
    const limiter = RateLimiter.create({
      samplesPerInsert: 1,
      minSize: 1,
      errorBuffer: 300_000,
      gateAdd: true,
    });
    const buffer = bufferOf(kind, 1, limiter);
    const marks = SessionOffsets.create();
    const rowBytes =
      buffer instanceof ReplayBuffer
        ? buffer.rowBytes
        : rowBytesOf((buffer as TrajectoryBuffer).layout);
    let epoch = 0;
    const start = (endAt: number) => {
      words.fill(0);
      const task: EndedTask = {
        address: { url: shared.url },
        run,
        shard: 0,
        shards: 1,
        epoch,
        words,
        endAt,
        held: false,
        info: { layout: layoutText(buffer), weights: 0, options: null, seed: 0, shards: 1 },
        buffer: buffer.share() as EndedTask['buffer'],
        rowBytes,
        mailbox: null,
        marks: marks.shared,
        spans: [Spans.allocate()],
        transitBytes: 2 ** 20,
        weightsEveryMs: 200,
        maxVersionLag: Number.POSITIVE_INFINITY,
      };
      const thread = new Worker(new URL('./ended-thread.js', import.meta.url), {
        workerData: task,
        execArgv: [],
      });
      keep({ close: () => thread.terminate() });
      const said: unknown[] = [];
      const ready = new Promise<void>((resolve) => {
        thread.on('message', (told: RemoteThreadReport) => {
          if ('report' in told) return;
          said.push(told);
          if (!('ready' in told)) return;
          epoch = told.ready;
          resolve();
        });
      });
      thread.on('error', (error) => void said.push(error));
      return { thread, ready, said };
    };
    return { run, buffer, limiter, marks, words, start };
  }

  for (const kind of ['rows', 'steps'] as const)
    (kind === 'rows' ? itLonger : itAll)(
      `${kind} arrive once when the thread ends at any of its calls`,
      async () => {
        const { run, buffer, limiter, marks, words, start } = learner(kind);
        const first = start(-1);
        await first.ready;
        const { entry, to } = leash();
        const machine = await host({
          url: shared.url,
          run,
          entry,
          name: 'ann',
          flushBytes: 256,
          outboxBytes: 2 ** 14,
        });
        await first.thread.terminate();
        let steps = 0;
        for (let endAt = FIRST; ; endAt += STRIDE[kind]) {
          // The host always has more rows to send.
          steps = Math.max(steps, machine.statistics().steps + 400);
          to(steps);
          const { thread, said } = start(endAt);
          const still = await Atomics.waitAsync(words, EndWord.still, 0, 20_000).value;
          expect(still, `moment ${endAt}: ${JSON.stringify(said)}`).to.not.equal('timed-out');
          await thread.terminate();
          const there = marks.count === 0 ? 0 : marks.read(0).mark;
          if (buffer instanceof ReplayBuffer)
            expect(buffer.ptr, `rows after moment ${endAt}`).to.equal(there);
          if (Atomics.load(words, EndWord.adds) < ADDS) continue;
          expect(endAt).to.be.above(40);
          break;
        }
        const { thread, ready } = start(-1);
        await ready;
        await untilAsked('all is in', () => {
          const told = machine.statistics();
          return told.steps === steps && told.waiting === 0 && told.acknowledged === told.sent;
        });
        expectWhole(buffer, steps, 1);
        const gone = new Promise((resolve) => thread.once('exit', resolve));
        thread.postMessage('stop');
        await gone;
        // No terminated thread has kept a bell of the limiter.
        const { bells } = internalsOfLimiter(limiter);
        expect(Array.from({ length: bells.count }, () => bells.claim()).includes(null)).to.equal(
          false,
        );
      },
    );
});
