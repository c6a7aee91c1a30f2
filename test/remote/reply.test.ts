/**
 * Tests the parser of replies: any split of the bytes, invalid replies, and the memory into which
 * messages are read.
 */
import { expect } from 'chai';
import { BEFORE_FIRST, LinkError } from '../../src/net/remote/link.ts';
import { HEADER_BYTES } from '../../src/net/remote/message.ts';
import { Refused, type Reply, ReplyParser } from '../../src/net/remote/reply-parser.ts';
import { rejection } from '../rig/refusal.ts';
import { Links, Told } from './link-rigs.ts';
import { OddServer } from './odd-server.ts';

const cut = (text: string, length: number): string[] =>
  Array.from({ length: Math.ceil(text.length / length) }, (_, i) =>
    text.slice(i * length, (i + 1) * length),
  );

/** Returns the replies in `pieces`, with bytes as text. */
function parsed(pieces: readonly string[]): unknown[] {
  const replies: unknown[] = [];
  const plain = (reply: Reply): unknown => {
    if (Array.isArray(reply)) return reply.map(plain);
    if (reply instanceof Refused) return { refused: reply.message };
    return reply instanceof Uint8Array ? Buffer.from(reply).toString('latin1') : reply;
  };
  const parser = new ReplyParser({
    room: () => null,
    most: 2 ** 23,
    grown: () => {},
    done: (reply) => replies.push(plain(reply)),
  });
  for (const piece of pieces) parser.feed(Buffer.from(piece, 'latin1'));
  return replies;
}

const bulk = (text: string) => `$${text.length}\r\n${text}\r\n`;
const streamOf = (...messages: (readonly [id: string, text: string])[]) =>
  `*1\r\n*2\r\n${bulk('s')}*${messages.length}\r\n${messages.map(([id, text]) => `*2\r\n${bulk(id)}*2\r\n${bulk('m')}${bulk(text)}`).join('')}`;

describe('ReplyParser', () => {
  const all: readonly (readonly [text: string, values: readonly unknown[]])[] = [
    [
      streamOf(['1-1', 'a\r\nb$3\r\n*1\r\n'], ['1-2', '']),
      [
        [
          [
            's',
            [
              ['1-1', ['m', 'a\r\nb$3\r\n*1\r\n']],
              ['1-2', ['m', '']],
            ],
          ],
        ],
      ],
    ],
    ['*-1\r\n$-1\r\n', [null, null]],
    ['*3\r\n*-1\r\n*2\r\n$-1\r\n*0\r\n:12\r\n', [[null, [null, []], 12]]],
    [
      '-ERR no\r\n+OK\r\n*2\r\n-WRONG\r\n:0\r\n',
      [{ refused: 'ERR no' }, 'OK', [{ refused: 'WRONG' }, 0]],
    ],
  ];
  const bytes = all.map(([text]) => text).join('');
  const values = all.flatMap(([, value]) => value);

  it('returns the same replies for any split of the bytes', () => {
    for (let at = 0; at <= bytes.length; at++)
      expect(parsed([bytes.slice(0, at), bytes.slice(at)]), `cut at ${at}`).to.deep.equal(values);
    for (const length of [1, 2, 3, 7])
      expect(parsed(cut(bytes, length)), `pieces of ${length}`).to.deep.equal(values);
  });

  it('returns a reply that is longer than its initial memory', () => {
    const text = 'abcdefgh'.repeat(400_000);
    expect(parsed(cut(bulk(text), 300_000))).to.deep.equal([text]);
  });

  it('throws for invalid replies', () => {
    const odd: Record<string, RegExp> = {
      'HTTP/1.1 400\r\n': /unknown type byte/,
      '%1\r\n': /unknown type byte/,
      '\r\n': /unknown type byte/,
      '+OK\n': /does not end/,
      '$3\r\nabcd\r\n': /longer than/,
      '$536870913\r\n': /length or number/,
      '$99999999999999999999\r\n': /length or number/,
      '$-2\r\n': /length or number/,
      '$\r\n': /length or number/,
      '$1e3\r\n': /length or number/,
      '*1048577\r\n': /length or number/,
      '*-2\r\n': /length or number/,
      ':x\r\n': /length or number/,
      ['*1\r\n'.repeat(9)]: /nested arrays/,
      [`+${'a'.repeat(70_000)}`]: /a line of more/,
    };
    for (const [text, words] of Object.entries(odd))
      expect(() => parsed([text]), text.slice(0, 40)).to.throw(words);
  });

  it('allocates no memory for announced bytes that have not arrived', () => {
    const before = process.memoryUsage().arrayBuffers;
    const parsers = Array.from(
      { length: 64 },
      () => new ReplyParser({ most: 100, room: () => null, grown: () => {}, done: () => {} }),
    );
    for (const parser of parsers) parser.feed(Buffer.from('$536870912\r\nabc'));
    expect(process.memoryUsage().arrayBuffers - before).to.be.below(256 * 2 ** 20);
    expect(parsers).to.have.length(64);
  });
});

describe('ReplyParser with oversized values', () => {
  const cases: readonly (readonly [what: string, room: 'none' | Uint8Array | null])[] = [
    ['a value that the caller skips', 'none'],
    ['a value that is longer than `most`', null],
    ['a value that is longer than its memory', new Uint8Array(10)],
  ];
  for (const [what, room] of cases)
    it(`returns ${what} as empty, and the next value whole`, () => {
      const replies: Reply[] = [];
      const parser = new ReplyParser({
        most: 1000,
        room: (_, index) => (index === 0 ? room : null),
        grown: () => expect.fail('no room is made for it'),
        done: (reply) => replies.push(reply),
      });
      const before = process.memoryUsage().arrayBuffers;
      parser.feed(Buffer.from(`*2\r\n$${2 ** 29}\r\n`));
      const piece = Buffer.alloc(2 ** 20, 'x');
      for (let fed = 0; fed < 2 ** 29; fed += piece.length) parser.feed(piece);
      parser.feed(Buffer.from(`\r\n${bulk('behind')}`));
      expect(process.memoryUsage().arrayBuffers - before).to.be.below(2 ** 23);
      const [[long, behind]] = replies as [[Uint8Array, Uint8Array]];
      expect([long.length, Buffer.from(behind).toString()]).to.deep.equal([0, 'behind']);
    });
});

describe('RedisLink.read()', () => {
  const links = new Links();
  let server: OddServer;
  afterEach(async () => {
    await links.close();
    await server.close();
  });
  const open = async (answer: (args: readonly string[]) => string | null, told = new Told()) => {
    server = await OddServer.open({ XREAD: answer });
    const link = await links.redis({ url: server.url, name: 'test', silenceMs: 60_000 });
    await link.connect(told);
    return link;
  };
  const texts = (entries: readonly { bytes: Uint8Array }[]) =>
    entries.map((entry) => Buffer.from(entry.bytes).toString());

  it('reuses the memory of the last read, and gives concurrent reads separate memory', async () => {
    let count = 0;
    const link = await open(() =>
      streamOf([`1-${++count}`, `text ${count}`], [`2-${count}`, `more ${count}`]),
    );
    const read = () => link.read('s', BEFORE_FIRST, 2, 0);
    const first = await read();
    expect(texts(first)).to.deep.equal(['text 1', 'more 1']);
    const second = await read();
    expect(texts(second)).to.deep.equal(['text 2', 'more 2']);
    const buffers = new Set([...first, ...second].map((entry) => entry.bytes.buffer));
    expect(buffers.size).to.equal(2);
    // The two reads run at once, and each gets memory of its own.
    const both = await Promise.all([read(), read()]);
    expect(both.map(texts)).to.deep.equal([
      ['text 3', 'more 3'],
      ['text 4', 'more 4'],
    ]);
  });

  it('returns an empty entry for a message above the size limit, and keeps no large memory', async () => {
    const long = 'x'.repeat(HEADER_BYTES + 8 * 2 ** 20);
    const link = await open((args) =>
      streamOf(['1-1', args.at(-1) === '0-0' ? long : `${long}x`], ['1-2', 'more']),
    );
    const lengths = async (after: string) =>
      (await link.read('s', after, 2, 0)).map(({ bytes }) => bytes.length);
    expect(await lengths('0-0')).to.deep.equal([long.length, 4]);
    expect(await lengths('5-0')).to.deep.equal([0, 4]);
    await links.close();
    const url = server.url;
    const wide = await links.redis({ url, name: 'test', silenceMs: 60_000, rowBytes: 9 * 2 ** 20 });
    await wide.connect(new Told());
    const read = async () => await wide.read('s', '5-0', 1, 0);
    const [first] = await read();
    expect(first!.bytes.length).to.equal(long.length + 1);
    const [second] = await read();
    expect(second!.bytes.buffer).not.to.equal(first!.bytes.buffer);
  });

  it('keeps the connection when entries have other fields or none', async () => {
    const link = await open(
      () =>
        `*1\r\n*2\r\n${bulk('s')}*2\r\n*2\r\n${bulk('1-1')}*4\r\n${[...'abcd'].map(bulk).join('')}*2\r\n${bulk('1-2')}*-1\r\n`,
    );
    expect(texts(await link.read('s', BEFORE_FIRST, 2, 0))).to.deep.equal(['b', '']);
  });

  it('ends the connection and connects again after a malformed reply', async () => {
    const odd = [
      '*1\r\n:1\r\n',
      '+OK\r\n',
      `*1\r\n*2\r\n${bulk('s')}*1\r\n*2\r\n${bulk('x')}*0\r\n`,
      'what?\r\n',
      '*-1\r\n*-1\r\n',
    ];
    for (const text of odd) {
      const told = new Told();
      const link = await open(() => text, told);
      const ended = link.read('s', BEFORE_FIRST, 2, 0);
      // The last text holds two replies, and the first of them is a valid reply.
      if (text === odd.at(-1)) expect(await ended).to.deep.equal([]);
      else expect(await rejection(ended), text).to.be.instanceOf(LinkError);
      await told.when(() => told.servers.length === 2);
      await links.close();
      await server.close();
    }
    server = await OddServer.open({});
  });

  it('rejects with `denied` and the text of the server when the server refuses XREAD', async () => {
    const link = await open(() => '-WRONGTYPE of another kind\r\n');
    const refused = (await rejection(link.read('s', BEFORE_FIRST, 1, 0))) as LinkError;
    expect([refused.how, refused.message]).to.deep.equal([
      'denied',
      `${server.url} refuses XREAD: WRONGTYPE of another kind`,
    ]);
  });
});
