/**
 * Many hosts in one process. Their uplinks and connections are real. Their outboxes have rows
 * without any collector.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { WeightMailbox } from '../src/index.ts';
import { STAT_LIFE_MS, STAT_MS, writeStat } from '../src/net/remote/host-stat.ts';
import { readInfo } from '../src/net/remote/info.ts';
import { keysOf } from '../src/net/remote/keys.ts';
import { layoutSum } from '../src/net/remote/layout.ts';
import type { Outbox } from '../src/net/remote/outbox.ts';
import { openRedisLink } from '../src/net/remote/redis-link.ts';
import { Uplink } from '../src/net/remote/uplink.ts';
import { WeightsIn } from '../src/net/remote/weights.ts';
import { BELL_WORDS, BellBoard } from '../src/shm/bell.ts';
import { monotonic } from './remote-clock.ts';

export interface SwarmTask {
  readonly url: string;
  readonly run: string;
  readonly hosts: number;
  readonly flushBytes: number;
  /** ms between two rows of a host. 0: rows are always waiting */
  readonly everyMs: number;
}
/** What this process sends to its parent. The moments are ms of the machine's monotonic clock. */
export type SwarmSays =
  | 'ready'
  | { readonly first: number; readonly all: number }
  | { readonly weights: number };
/**
 * What the parent requests. 'mark': each host makes a row, and the answer says when the learner had
 * the first row and when it had all. A version: the answer says when all hosts had it.
 */
export type SwarmIsTold = 'mark' | { readonly version: number };

class Rows implements Outbox {
  readonly bells = new BellBoard(new Int32Array(new SharedArrayBuffer(BELL_WORDS * 4)), 1);
  readonly lanes = 0;
  readonly rowBytes: number;
  made: number;
  taken = 0;
  constructor(rowBytes: number, made: number) {
    this.rowBytes = rowBytes;
    this.made = made;
  }
  waiting(): number {
    return this.made - this.taken;
  }
  readonly take = (out: Uint8Array, most: number): number => {
    const rows = Math.min(most, this.waiting());
    out.fill(0, 0, rows * this.rowBytes);
    this.taken += rows;
    return rows;
  };
  make(rows: number): void {
    this.made += rows;
    this.bells.ringAll();
  }
}

const task = JSON.parse(process.argv[2]!) as SwarmTask;
const keys = keysOf(task.run);
const say = (said: SwarmSays) => process.send!(said);

async function openHost(session: number) {
  const link = await openRedisLink({ url: task.url, name: `host ${session}`, facts: false });
  let uplink: Uplink | null = null;
  let fetching = false;
  const fetch = () => {
    if (weights === null || fetching) return;
    fetching = true;
    weights
      .fetch()
      .catch(() => {}) // the next notice fetches again
      .finally(() => {
        fetching = false;
      });
  };
  let weights: WeightsIn | null = null;
  await link.connect({
    channels: [keys.ack(session), keys.versions],
    notice(channel, text) {
      if (channel === keys.versions) fetch();
      else uplink?.notice(text);
    },
    connected: () => uplink?.connected(),
    lost: () => uplink?.lost(),
  });
  const info = (await readInfo(link, keys.info))!;
  const mailbox = info.weights > 0 ? WeightMailbox.create({ length: info.weights }) : null;
  weights = mailbox && new WeightsIn({ link, keys, mailbox });
  const { rowBytes } = JSON.parse(info.layout) as { rowBytes: number };
  const outbox = new Rows(rowBytes, task.everyMs === 0 ? Number.MAX_SAFE_INTEGER : 0);
  const given = {
    link,
    keys,
    session,
    shard: 0,
    layout: layoutSum(info.layout),
    outbox,
    now: Date.now,
  };
  uplink = new Uplink({ ...given, flushBytes: task.flushBytes, flushMs: 20, version: () => 0 });
  uplink.connected();
  uplink.run().catch((error) => console.error(error));
  const stat = () => {
    const none = {
      steps: 0,
      episodes: 0,
      recent: 0,
      waits: 0,
      version: 0,
      waiting: 0,
      full: 0,
      meanReturn: null,
    };
    const told = writeStat({
      ...none,
      host: `host ${session}`,
      pid: process.pid,
      workers: 1,
      failed: '',
    } as never);
    link.store(keys.stat(session), told, STAT_LIFE_MS).catch(() => {}); // more statistics follow
  };
  stat();
  setTimeout(() => setInterval(stat, STAT_MS), Math.random() * STAT_MS);
  if (task.everyMs > 0)
    setTimeout(() => setInterval(() => outbox.make(1), task.everyMs), Math.random() * task.everyMs);
  const version = () => (weights && mailbox ? weights.versionOf(mailbox.published) : 0);
  return { uplink, outbox, version };
}

const hosts: Awaited<ReturnType<typeof openHost>>[] = [];
for (let i = 0; i < task.hosts; i += 20)
  hosts.push(
    ...(await Promise.all(
      Array.from({ length: Math.min(20, task.hosts - i) }, (_, j) => openHost(i + j + 1)),
    )),
  );
if (task.everyMs > 0) while (hosts.some(({ uplink }) => uplink.epoch === 0)) await wait(20);

async function marked(): Promise<void> {
  const targets = hosts.map(({ uplink, outbox }) => {
    outbox.make(1);
    return { kept: uplink.queued, row: outbox.made };
  });
  let first = 0;
  for (let left = targets; left.length > 0; await wait(2)) {
    left = left.filter(({ kept, row }) => kept.acknowledged < row);
    if (left.length < targets.length) first ||= monotonic();
  }
  say({ first, all: monotonic() });
}

process.on('message', async (told: SwarmIsTold) => {
  if (told === 'mark') return marked();
  while (hosts.some(({ version }) => version() < told.version)) await wait(2);
  say({ weights: monotonic() });
});
process.once('disconnect', () => process.exit());
say('ready');
