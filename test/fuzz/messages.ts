/**
 * Input from other machines: messages of hosts, replies of a server, and the texts that the server
 * stores.
 */

import { type Random, ReplayBuffer } from '../../src/index.ts';
import {
  type Acknowledgement,
  readAcknowledgement,
  readHeartbeat,
  writeAcknowledgement,
} from '../../src/net/remote/acknowledgement.ts';
import { readStat } from '../../src/net/remote/host-stat.ts';
import { readInfo } from '../../src/net/remote/info.ts';
import { bufferLike, layoutSum, layoutText } from '../../src/net/remote/layout.ts';
import {
  emptyHeader,
  HEADER_BYTES,
  type MessageHeader,
  readMessage,
  sealMessage,
} from '../../src/net/remote/message.ts';
import { type Reply, ReplyParser } from '../../src/net/remote/reply-parser.ts';
import { readStatus, writeStatus } from '../../src/net/remote/status.ts';
import { aHost, aStatus } from '../remote/statuses.ts';
import { damaged, edited } from './edits.ts';
import type { Kind } from './target.ts';
import { type Call, form, type Gen, one, real, record, whole } from './values.ts';

const text = (given: string) => Buffer.from(given, 'latin1');
const acknowledgement: Acknowledgement = {
  epoch: 12,
  row: 7,
  window: 65536,
  nak: 0,
  refused: '',
} as unknown as Acknowledgement;
const layout = layoutText(ReplayBuffer.offPolicy({ capacity: 4, obsDim: 1, actionDim: 1 }));

/** Makes a message with a right checksum, whatever its header contains. */
function message(header: Partial<MessageHeader>, rows: number): Uint8Array {
  const bytes = new Uint8Array(HEADER_BYTES + rows);
  sealMessage(bytes, {
    ...emptyHeader(),
    session: 77,
    rows: 2,
    rowBytes: 24,
    lanes: 0,
    sent: 1,
    ...header,
  });
  return bytes;
}

/**
 * Feeds the bytes of replies to the parser in pieces of this length. Returns the number of replies.
 * The parser's memory is bounded.
 */
function replies(bytes: Uint8Array, piece: number): number {
  let count = 0;
  const parser = new ReplyParser({
    room: (depth: number) => (depth > 3 ? 'none' : null),
    most: 2 ** 20,
    grown: () => {},
    done: (_: Reply) => void count++,
  });
  try {
    for (let at = 0; at < bytes.length; at += piece)
      parser.feed(Buffer.from(bytes.subarray(at, at + piece)));
  } catch (error) {
    // The reader closes the connection after any plain Error; see reply-reader.ts.
    if ((error as Error).constructor !== Error) throw error;
  }
  return count;
}

/** Reads what a server stores about a run. Each argument is the text of one value. */
const info = (layout: string, protocol: string, weights: string, options: string, shards: string) =>
  readInfo(
    {
      load: async () => [
        protocol,
        '5',
        layout,
        `${layoutSum(layout)}`,
        weights,
        options,
        '1',
        shards,
      ],
    } as unknown as Parameters<typeof readInfo>[0],
    'run',
  );

const samples: Readonly<Record<string, Uint8Array>> = {
  message: message({}, 48),
  reply: text('*2\r\n$4\r\nabcd\r\n*3\r\n:12\r\n+OK\r\n$-1\r\n-ERR no\r\n*-1\r\n$0\r\n\r\n'),
  stream: text('*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nm\r\n$5\r\nhello\r\n'),
  acknowledgement: text(writeAcknowledgement(acknowledgement)),
  heartbeat: text('12:3:4'),
  status: writeStatus(aStatus({}, [aHost()])),
  layout: text(layout),
  stat: text(
    JSON.stringify({
      name: 'h',
      waits: 'rows',
      steps: 1,
      episodes: 2,
      return: 3,
      workers: 1,
      sent: 1,
    }),
  ),
};

const header = record(
  {},
  {
    flags: whole(0, 7),
    session: one('0', '1', '2 ** 52', '2 ** 60'),
    first: one('0', '5', '2 ** 53'),
    base: whole(0, 9),
    rows: one('0', '2', '2 ** 32 - 1'),
    rowBytes: one('0', '24', '2 ** 31'),
    layout: whole(0, 9),
    version: whole(0, 9),
    sent: real(-1, 1),
    lanes: whole(0, 9),
  },
);
const latin = (name: string): Gen =>
  form('text($)', damaged([name, name, name, ...Object.keys(samples)], 60));

const calls: readonly (readonly [form: string, ...gens: Gen[]])[] = [
  ['read($)', damaged(['message', 'message', ...Object.keys(samples)], 64)],
  ['read($)', form('message($, $)', header, one('0', '48', '47', '49'))],
  [
    'replies($, $)',
    damaged(['reply', 'stream', 'reply', 'stream', ...Object.keys(samples)]),
    one('1', '2', '7', '4096'),
  ],
  ['readAcknowledgement($)', latin('acknowledgement')],
  ['readHeartbeat($)', latin('heartbeat')],
  ['readStat($)', latin('stat')],
  ['readStatus($)', damaged(['status'], 400)],
  ['bufferLike($, $, $)', latin('layout'), one('65536', '1024', '0'), whole(0, 4)],
  [
    'info($, $, $, $, $)',
    latin('layout'),
    one("'1'", "'1'", "'1'", "'x'"),
    one("'0'", "'-1'", "''"),
    one("'null'", "'{'", "'{}'"),
    one("'1'", "'1e99'"),
  ],
];

export const messages = (): Kind => ({
  draw: (random: Random): Call => {
    const [text, ...gens] = calls[random.below(calls.length)] as (typeof calls)[number];
    return { form: text, values: gens.map((gen) => gen(random)) };
  },
  open: async () => ({
    scope: {
      samples,
      edited,
      message,
      replies,
      readAcknowledgement,
      readHeartbeat,
      readStat,
      readStatus,
      bufferLike,
      info,
      text: (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1'),
      read: (bytes: Uint8Array) => readMessage(bytes, emptyHeader()),
    },
    close: async () => {},
  }),
  inOnePlace: 10_000,
  patience: 1000,
});
