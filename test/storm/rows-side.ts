/**
 * Rows that collectors on another machine send through a server. One run lasts for the whole life,
 * with a checkpoint of the run and of the hosts' marks.
 */
import { RemoteCollectors } from '../../src/entries/remote.ts';
import { type Checkpoint, RateLimiter, ReplayPipeline, WeightMailbox } from '../../src/index.ts';
import { remoteThreadsOf } from '../../src/net/remote/remote-collectors.ts';
import type { SavedOffset } from '../../src/net/remote/session-offsets.ts';
import { workersOf } from '../pipeline/inside.ts';
import { StormLearner, scalars, WEIGHTS } from './learner.ts';
import { RowScan, stormRows } from './oracle.ts';
import { RUN } from './run-name.ts';
import {
  goneOn,
  lookedAt,
  nameOf,
  RESTARTS,
  ROWS,
  type SideOptions,
  type StormThread,
  saving,
  scanned,
  WeightScan,
} from './side.ts';
import type { Stack } from './stack.ts';

/** Number of collectors on each host. */
const COLLECTORS = 2;
/**
 * The most receiving threads that may end within a minute (src/net/remote/remote-collectors.ts).
 */
const MAX_LOST = 4;

export type RowsSide = Awaited<ReturnType<typeof openRows>>;

export async function openRows(options: SideOptions & { url: string }, stack: Stack) {
  const { device, placement, rows, wrong, url } = options;
  const limiter = RateLimiter.create({
    samplesPerInsert: 16,
    minSize: 256,
    errorBuffer: 16_384,
    gateAdd: true,
  });
  const buffer = stormRows(20_000, limiter);
  const mailbox = WeightMailbox.create({ length: WEIGHTS });
  const learner = stack.use(new StormLearner(device, ROWS));
  const pipeline = stack.use(
    await ReplayPipeline.open({
      buffer,
      mailbox,
      device: device.name,
      sampleCount: ROWS,
      placement,
      rows,
      ...(placement === 'inline' ? {} : { restart: RESTARTS }),
    }),
  );
  const captured = pipeline.capture(
    (batch, { stream, out }) => learner.update(stream, { body: batch.body }, out),
    {
      scalars: scalars(0),
      weights: learner.weights,
    },
  );
  const parts = { buffer, pipeline, learner, mailbox };
  const { tick, collectors } = await goneOn(options, {
    pipeline,
    learner,
    mailbox,
    parts: { buffer },
  });
  const ticks = scanned(pipeline, wrong);
  const cut = ((collectors as { marks?: readonly SavedOffset[] } | undefined)?.marks ?? []).filter(
    ({ cut }) => cut === true,
  );
  const scan = new RowScan(buffer, wrong, COLLECTORS * cut.length);
  const weights = new WeightScan(mailbox, wrong);
  const stop = new AbortController();
  let remote: RemoteCollectors | null = null;
  let checkpoint: Checkpoint | null = null;
  let next = tick + 1;
  const lost: number[] = [];

  /**
   * Opens the remote collectors. A run becomes free some seconds after its learner was killed.
   * Ticks continue meanwhile as long as there are rows.
   */
  async function receive(): Promise<void> {
    while (remote === null && !stop.signal.aborted) {
      try {
        remote = await RemoteCollectors.open({
          url,
          run: RUN,
          buffer,
          mailbox,
          transitBytes: 2 ** 20,
          weightsEveryMs: 50,
          resume: collectors,
          signal: stop.signal,
        });
      } catch (error) {
        if (stop.signal.aborted) return;
        if ((error as { code?: string }).code !== 'ERR_HOTSLOT_STATE_BUSY') throw error;
        await new Promise((resolve) => setTimeout(resolve, 250));
      }
    }
    if (remote === null) return;
    remote.done.catch((error) => wrong(`the rows' link ended: ${error.message}`));
    checkpoint = await saving(options, { ...parts, collectors: remote }, '800 ms');
  }
  async function running(): Promise<void> {
    const ran = await captured.run({ publishEvery: 5, signal: stop.signal });
    next += ran.ticks;
  }

  const receiving = lookedAt(receive());
  return {
    name: 'rows' as const,
    tick,
    pipeline,
    stop,
    running: lookedAt(running()),
    receiving,
    saved: () => checkpoint,
    nameOf: (thread: StormThread) =>
      nameOf(thread, {
        actor: workersOf(pipeline),
        receiver: remote ? remoteThreadsOf(remote) : [],
      }),
    facts: () => ({
      ticks: ticks.told,
      missed: ticks.missed,
      rows: scan.seen,
      passed: scan.passed,
      gaps: scan.gaps,
      lost: remote?.statistics().lost ?? 0,
    }),
    threads(): StormThread[] {
      const now = performance.now();
      while (lost.length > 0 && now - lost[0]! > 60_000) lost.shift();
      const receivers = remote !== null && lost.length < MAX_LOST ? remoteThreadsOf(remote) : [];
      return [...workersOf(pipeline), ...receivers].filter(
        (each) => each !== null && each !== undefined,
      );
    },
    /** Records that a thread was ended, because only a few receiving threads may end. */
    ended(thread: StormThread): void {
      if (remote && (remoteThreadsOf(remote) as unknown[]).includes(thread))
        lost.push(performance.now());
    },
    look(): void {
      scan.look();
      weights.look();
    },
    async last(): Promise<void> {
      scan.look(true);
      const updates = await learner.updates();
      if (updates !== next) wrong(`${next} ticks made ${updates} updates`);
      if (limiter.inserts !== buffer.ptr)
        wrong(`the limiter counts ${limiter.inserts} rows of ${buffer.ptr}`);
      if (limiter.samples !== ROWS * next)
        wrong(`the limiter counts ${limiter.samples} rows of ${next} ticks`);
      const told = remote?.statistics().lost ?? 0;
      if (scan.gaps > told) wrong(`${scan.gaps} rows are missing, ${told} were told to be lost`);
    },
    /** Closes the side, whether it was saved or not. */
    async close(): Promise<void> {
      stop.abort();
      await receiving.catch(() => {});
      await checkpoint?.close();
      await remote?.close();
    },
  };
}
