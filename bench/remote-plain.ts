/**
 * The Redis server with its own client and without Hotslot, as a baseline. `writer` writes
 * messages, at most eight of them unacknowledged. `reader` reads and acknowledges them. `takers`
 * has many connections, each of which reads a key's value when a channel announces it.
 */
import { createClient } from '@redis/client';
import { monotonic, sinceStamp, stampNow } from './remote-clock.ts';

export interface PlainTask {
  readonly role: 'writer' | 'reader' | 'takers';
  readonly url: string;
  readonly ca?: string;
  readonly bytes: number;
  /** connections that read the value of `key` after each notice on `channel` */
  readonly takers?: { readonly count: number; readonly key: string; readonly channel: string };
}

const STREAM = 'plain:in';
const ACKS = 'plain:ack';
const WINDOW = 8;
/** Redis's type code of strings, which the client then returns as bytes. */
const BYTES = { ['$'.charCodeAt(0)]: Buffer };

async function connected({ url, ca }: PlainTask) {
  const { readFileSync } = await import('node:fs');
  const socket = ca ? { tls: true as const, ca: readFileSync(ca) } : {};
  const client = createClient({ url, socket, RESP: 2 } as Parameters<typeof createClient>[0]);
  client.on('error', () => process.exit());
  await client.connect();
  return client;
}

async function write(task: PlainTask): Promise<void> {
  const [client, notices] = [await connected(task), await connected(task)];
  let [pace, sent, acknowledged, due] = [0, 0, 0, 0];
  let wake = () => {};
  await notices.subscribe(ACKS, (text) => {
    acknowledged = Number(text);
    wake();
  });
  process.on('message', (told) => {
    pace = Number(told);
    due = performance.now();
    wake();
  });
  const woken = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  const buffers = Array.from({ length: 2 * WINDOW }, () => Buffer.alloc(task.bytes));
  process.send!('ready');
  for (;;) {
    if (pace === 0 || sent - acknowledged >= WINDOW) {
      await woken(1000);
      continue;
    }
    const now = performance.now();
    if (Number.isFinite(pace)) {
      if (due - now > 0.5) {
        await woken(due - now);
        continue;
      }
      due = Math.max(due, now - 20) + (1000 * task.bytes) / pace;
    }
    const buffer = buffers[sent++ % buffers.length]!;
    buffer.writeFloatLE(stampNow(), 0);
    void client.sendCommand(['XADD', STREAM, '*', 'm', buffer]);
  }
}

async function read(task: PlainTask): Promise<void> {
  const [client, calls] = [await connected(task), await connected(task)];
  let [count, from] = [0, '0-0'];
  let lags: number[] = [];
  process.on('message', () => {
    process.send!({ bytes: count * task.bytes, lags });
    lags = [];
  });
  process.send!('ready');
  type Reply = [Buffer, [Buffer, [Buffer, Buffer]][]][] | null;
  for (;;) {
    const args = ['XREAD', 'COUNT', '4', 'BLOCK', '250', 'STREAMS', STREAM, from];
    const reply = (await client.sendCommand(args, { typeMapping: BYTES })) as Reply;
    for (const [id, [, bytes]] of reply?.[0]?.[1] ?? []) {
      count++;
      lags.push(sinceStamp(bytes.readFloatLE(0)));
      from = `${id}`;
    }
    if (reply === null) continue;
    void calls.sendCommand(['XTRIM', STREAM, 'MINID', from]);
    void calls.sendCommand(['PUBLISH', ACKS, `${count}`]);
  }
}

async function take(task: PlainTask): Promise<void> {
  let left = 0;
  const { count, key, channel } = task.takers!;
  for (let i = 0; i < count; i++) {
    const [client, notices] = [await connected(task), await connected(task)];
    await notices.subscribe(channel, async () => {
      left ||= count;
      await client.sendCommand(['GET', key], { typeMapping: BYTES });
      if (--left === 0) process.send!({ all: monotonic() });
    });
  }
  process.send!('ready');
}

const task = JSON.parse(process.argv[2]!) as PlainTask;
process.once('disconnect', () => process.exit());
await { writer: write, reader: read, takers: take }[task.role](task);
