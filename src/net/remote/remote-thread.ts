/**
 * A thread of the learner. It receives one stream. The thread of the first stream also leads the
 * run. Only remote-collectors.ts starts it.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { unavailableError } from '../../base/errors.ts';
import { toPlain } from '../../base/plain-error.ts';
import { Spans } from '../../engine/trace/spans.ts';
import type { RemoteHostStatus } from '../../run/collectors/remote-status.ts';
import { BELL_WORDS, Bell, type BellBoard } from '../../shm/bell.ts';
import type { Place } from '../../shm/memory.ts';
import type { SharedTrajectoryBuffer } from '../../store/lanes/shared-steps.ts';
import type { SharedReplayBuffer } from '../../store/rows/replay-buffer.ts';
import {
  type SharedWeightMailbox,
  versionsOf,
  WeightMailbox,
} from '../../store/weights/weight-mailbox.ts';
import { type AddressOptions, checkAddress } from './address.ts';
import type { RunInfo } from './info.ts';
import { Ingest, type IngestCounts } from './ingest.ts';
import { keysOf } from './keys.ts';
import { describeLayout, layoutSum } from './layout.ts';
import { Leader, takeRun } from './leader.ts';
import { coded, type ServerFacts } from './link.ts';
import { Receiver } from './receiver.ts';
import { openRedisLink } from './redis-link.ts';
import { type OpenSink, sinkOf } from './row-sink.ts';
import { SessionOffsets, type SharedSessionOffsets } from './session-offsets.ts';
import { WatchedHosts } from './watched-hosts.ts';
import { WeightsOut } from './weights.ts';

export interface RemoteThreadTask {
  readonly address: AddressOptions;
  readonly run: string;
  readonly shard: number;
  readonly shards: number;
  /** epoch of the learner, or 0 if this thread must take the run and report the epoch */
  readonly epoch: number;
  readonly info: Omit<RunInfo, 'epoch'>;
  readonly buffer: SharedReplayBuffer | SharedTrajectoryBuffer;
  /** bytes of a row in a message */
  readonly rowBytes: number;
  readonly mailbox: SharedWeightMailbox | null;
  readonly marks: SharedSessionOffsets;
  /** memory of each shard for the trace spans of its thread */
  readonly spans: readonly Place[];
  readonly transitBytes: number;
  readonly weightsEveryMs: number;
  readonly maxVersionLag: number;
  readonly held: boolean;
}

/** Messages from the thread and messages to it. */
export type RemoteThreadReport =
  | { readonly ready: number }
  /** reason why the thread waits for the server before it is ready */
  | { readonly waits: string }
  | { readonly held: true }
  | { readonly report: RemoteReport }
  | { readonly failed: unknown }
  | { readonly stopped: true };
export type RemoteThreadMessage = 'hold' | 'release' | 'stop' | { readonly status: Uint8Array };

export interface RemoteReport {
  readonly counts: IngestCounts;
  /** ms from sending to commit of the recent messages, and their age in versions, both unsorted */
  readonly lags: Float64Array;
  readonly behind: Float64Array;
  readonly gatedMs: number;
  readonly connected: boolean;
  readonly sums: ReturnType<WatchedHosts['sums']>;
  readonly hosts: RemoteHostStatus[];
}

const REPORT_MS = 500;
const LOOK_MS = 1000;
/** Maximum ms that a stopped thread waits until the last rows are acknowledged. */
const LAST_WORDS_MS = 500;

const port = parentPort!;
const say = (report: RemoteThreadReport) => port.postMessage(report);

/**
 * Receives requests of the thread that opened the collectors. Requests that arrive early take
 * effect when the receiver and the leader exist.
 */
class ControlInbox {
  held: boolean;
  #parts: { receiver: Receiver; leader: Leader | null } | null = null;
  stopped = false;
  readonly #stop: () => void;

  /** `stop` is called for a stop request that arrives before the receiver and the leader exist. */
  constructor(held: boolean, stop: () => void) {
    this.held = held;
    this.#stop = stop;
    port.on('message', (message: RemoteThreadMessage) => this.#hear(message));
  }

  begin(parts: { receiver: Receiver; leader: Leader | null }): void {
    this.#parts = parts;
    if (this.stopped) this.stop();
  }
  stop(): void {
    this.stopped = true;
    this.#parts?.receiver.stop();
    this.#parts?.leader?.stop();
  }

  #hear(message: RemoteThreadMessage): void {
    if (message === 'hold') {
      this.held = true;
      this.#parts?.receiver.hold();
      say({ held: true });
    } else if (message === 'release') {
      this.held = false;
      this.#parts?.receiver.release();
    } else if (message === 'stop') {
      if (this.#parts === null) this.#stop();
      this.stop();
    } else this.#parts?.leader?.publish(message.status).catch(() => {}); // the next status follows
  }
}

/**
 * Throws for a server that drops values when it is full, because it may drop the values of this
 * run.
 */
function checkKeeps(server: ServerFacts | null, url: string): void {
  if (!server?.evicts) return;
  throw unavailableError(
    `${checkAddress({ url, insecure: true }).shown} drops values when its memory is full (maxmemory-policy ${server.evicts}): ` +
      'set its maxmemory-policy to noeviction',
  );
}

async function perform(task: RemoteThreadTask): Promise<void> {
  const { shard, run } = task;
  const transitBytes = task.transitBytes / task.shards;
  const keys = keysOf(run);
  const link = await openRedisLink({
    ...task.address,
    name: `hotslot learner ${run}`,
    rowBytes: task.rowBytes,
  });
  const inbox = new ControlInbox(task.held, () => void link.close());
  let parts: { receiver: Receiver; leader: Leader | null } | null = null;
  let server: ServerFacts | null = null;
  const timers: NodeJS.Timeout[] = [];
  let sink: OpenSink | null = null;
  let claimed: Bell | null = null;
  let bells: BellBoard | null = null;
  try {
    await link.connect({
      connected(facts) {
        server = facts;
        parts?.receiver.onConnected(facts);
        parts?.leader?.onConnected();
      },
      lost(cause) {
        server = null;
        if (parts === null) say({ waits: cause.message });
        parts?.receiver.onLost();
        parts?.leader?.onLost();
      },
    });
    sink = sinkOf(task.buffer);
    const mailbox = task.mailbox && WeightMailbox.attach(task.mailbox);
    bells = mailbox && versionsOf(mailbox).bells;
    // If others have claimed all bells of the mailbox, the leader has none. It then checks for a
    // new version once a second.
    claimed = shard === 0 && bells ? bells.claim() : null;
    checkKeeps(server, task.address.url);
    const epoch = task.epoch || (await takeRun(link, keys, run, () => inbox.stopped));
    const info: RunInfo = { ...task.info, epoch };
    const ingest = new Ingest({
      marks: new SessionOffsets(task.marks),
      sink,
      layout: layoutSum(info.layout),
      maxVersionLag: task.maxVersionLag,
      layoutText: describeLayout(info.layout).slice(0, 500),
      version: () => mailbox?.published ?? 0,
      now: Date.now,
    });
    const receiver = new Receiver({
      link,
      keys,
      shard,
      epoch,
      ingest,
      sink,
      transitBytes,
      held: inbox.held,
    });
    receiver.spans = new Spans(task.spans[shard] as Place);
    const weights =
      mailbox && new WeightsOut({ link, keys, mailbox, epoch, everyMs: task.weightsEveryMs });
    const bell = claimed ?? new Bell(new Int32Array(new SharedArrayBuffer(4 * BELL_WORDS)));
    const leader = shard === 0 ? new Leader({ link, keys, run, info, weights, bell }) : null;
    parts = { receiver, leader };
    if (server) receiver.onConnected(server);
    inbox.begin(parts);
    const hosts = new WatchedHosts({ link, keys, ingest });
    const readHosts = () =>
      hosts.read().then(
        (live) => receiver.share(live),
        () => {}, // the next check follows soon
      );
    timers.push(
      setInterval(readHosts, LOOK_MS),
      setInterval(() => say(reportOf(ingest, receiver, hosts)), REPORT_MS),
    );
    // Hosts can join once the leader has announced the run.
    void Promise.resolve(leader?.announced).then(() => say({ ready: epoch }));
    await Promise.all([receiver.run(), leader?.run()]);
    await receiver.settled(LAST_WORDS_MS);
    say(reportOf(ingest, receiver, hosts));
    await leader?.leave().catch(() => {}); // if this fails, the lease expires
  } finally {
    for (const timer of timers) clearInterval(timer);
    // Stops the receiver and the leader. If one of them failed, the other one may still run.
    inbox.stop();
    if (claimed) bells?.release(claimed);
    sink?.close();
    await link.close();
  }
}

function reportOf(ingest: Ingest, receiver: Receiver, hosts: WatchedHosts): RemoteThreadReport {
  const { counts, lags, versionLags, measured } = ingest;
  const { gatedMs, connected } = receiver;
  const count = Math.min(measured, lags.length);
  const sums = hosts.sums();
  return {
    report: {
      counts: { ...counts },
      gatedMs,
      connected,
      sums,
      hosts: hosts.status(),
      lags: lags.slice(0, count),
      behind: versionLags.slice(0, count),
    },
  };
}

try {
  await perform(workerData as RemoteThreadTask);
  say({ stopped: true });
} catch (error) {
  say({ failed: toPlain(coded(error)) });
} finally {
  port.close();
}
