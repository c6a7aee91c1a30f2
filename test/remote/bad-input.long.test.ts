/**
 * Tests a learner that receives forged and damaged messages while a valid host sends rows. It must
 * refuse the messages, and store only and all rows of the host.
 */
import { expect } from 'chai';
import { crc32 } from '../../src/base/arrays/crc32.ts';
import { ReplayBuffer, type TrajectoryBuffer } from '../../src/index.ts';
import { keysOf, sessionName } from '../../src/net/remote/keys.ts';
import { layoutSum, layoutText } from '../../src/net/remote/layout.ts';
import {
  emptyHeader,
  HEADER_BYTES,
  HELLO,
  type MessageHeader,
  sealMessage,
} from '../../src/net/remote/message.ts';
import { remoteThreadsOf } from '../../src/net/remote/remote-collectors.ts';
import { rowBytesOf } from '../../src/store/lanes/packed-rows.ts';
import { rejection } from '../rig/refusal.ts';
import { describeAll, itAll, itLonger, setting } from '../rig/setting.ts';
import {
  bufferOf,
  expectWhole,
  host,
  type Kind,
  learn,
  leash,
  newRun,
  numbersIn,
  sharedServer,
  untilAsked,
} from './runs.ts';

describeAll('remote collectors with invalid input', () => {
  const shared = sharedServer();

  /**
   * Opens a learner and a valid host. `send` appends any message to the learner's stream, as a
   * malicious host could.
   */
  async function attacked(kind: Kind, lanes = 3) {
    const run = newRun();
    const keys = keysOf(run);
    const buffer = bufferOf(kind, lanes);
    const remote = await learn({ url: shared.url, run, buffer });
    const threads = [...remoteThreadsOf(remote)];
    const { entry, to } = leash();
    to(20);
    const good = await host({ url: shared.url, run, entry, name: 'good' });
    await untilAsked('the good one is in', () => good.statistics().acknowledged >= 20);
    const layout = layoutSum(layoutText(buffer));
    const rowBytes =
      kind === 'rows'
        ? (buffer as ReplayBuffer).rowBytes
        : rowBytesOf((buffer as TrajectoryBuffer).layout);
    const message = (
      header: Partial<MessageHeader>,
      fill: (rows: DataView) => void = () => {},
    ): Uint8Array => {
      const { rows = 1 } = header;
      const bytes = new Uint8Array(HEADER_BYTES + rows * (header.rowBytes ?? rowBytes));
      fill(new DataView(bytes.buffer, HEADER_BYTES));
      const said = {
        session: 77,
        first: 0,
        base: 0,
        rows,
        rowBytes,
        layout,
        sent: Date.now(),
        lanes: kind === 'rows' ? 0 : 1,
      };
      sealMessage(bytes, { ...emptyHeader(), ...said, ...header });
      return bytes;
    };
    const send = async (...all: Uint8Array[]) => {
      for (let from = 0; from < all.length; from += 500)
        await Promise.all(
          all
            .slice(from, from + 500)
            .map((bytes) => shared.client.xAdd(keys.stream(0), '*', { m: Buffer.from(bytes) })),
        );
    };
    /** Returns the number of stored rows, or of steps without final observations. */
    const stored = () =>
      [...numbersIn(buffer).values()].reduce((sum, { length }) => sum + length, 0);
    let rows = 20;
    /**
     * Checks that the valid host can send 500 more rows, and that the learner has refused this
     * number of messages.
     */
    const held = async (refused: number) => {
      rows += 500;
      to(rows);
      await untilAsked(
        'the good one goes on',
        // Final observations are acknowledged too, so the acknowledged count may be larger than the
        // number of steps.
        () => stored() >= rows && good.statistics().waiting === 0,
      );
      await untilAsked('all is counted', () => remote.statistics().refused >= refused);
      expect(remote.statistics().refused, 'refused').to.equal(refused);
      expect(remoteThreadsOf(remote)).to.deep.equal(threads);
    };
    return {
      run,
      keys,
      buffer,
      remote,
      good,
      message,
      send,
      held,
      rowBytes,
      whole: () => expectWhole(buffer, rows, 1),
    };
  }

  /**
   * Changes a message and gives it a correct checksum, so that only the change makes it invalid.
   */
  function summed(bytes: Uint8Array, change: (view: DataView) => void): Uint8Array {
    const copy = bytes.slice();
    const view = new DataView(copy.buffer);
    change(view);
    view.setUint32(56, crc32(copy.subarray(60), crc32(copy.subarray(0, 56))), true);
    return copy;
  }

  it('the learner counts damaged and forged messages as `refused` and stores no rows of them', async () => {
    const { message, send, held, whole, remote } = await attacked('rows');
    const fine = message({ rows: 2 });
    const flipped = Array.from({ length: fine.length }, (_, at) => {
      const copy = fine.slice();
      copy[at]! ^= 1 << (at % 8);
      return copy;
    });
    const cut = [0, 1, 4, 63, 64, 65, fine.length - 1].map((length) => fine.slice(0, length));
    const longer = new Uint8Array(fine.length + 1);
    longer.set(fine);
    const forged = [
      summed(fine, (view) => view.setUint32(0, 0x31525349, true)),
      ...[0, 2, 65_535].map((version) => summed(fine, (view) => view.setUint16(4, version, true))),
      summed(fine, (view) => view.setBigUint64(8, 0n, true)),
      summed(fine, (view) => view.setBigUint64(8, 1n << 60n, true)),
      summed(fine, (view) => view.setBigUint64(16, 1n << 60n, true)),
      summed(fine, (view) => view.setUint32(32, 3, true)),
      summed(fine, (view) => view.setUint32(32, 0xffffffff, true)),
      summed(fine, (view) => view.setUint32(36, 0xffffffff, true)),
      message({ base: 1 }),
      message({ first: 2 ** 53 - 1, rows: 2 }),
      message({ rows: 2 ** 18 + 1 }),
    ];
    const bad = [...flipped, ...cut, longer, ...forged];
    await send(...bad);
    await held(bad.length);
    // None of the messages admitted session 77, so each was refused for its own fault.
    expect(remote.statistics().hosts).to.equal(1);
    whole();
    // Checks the test itself: without damage the message is accepted.
    await send(fine);
    await untilAsked('it is taken', () => remote.statistics().hosts === 2);
  });

  it('the learner rejects hosts of another layout, and the error has the layout of the learner', async () => {
    const { run, keys, buffer, message, send, held, whole } = await attacked('rows');
    await send(
      message({ layout: 5 }),
      message({ layout: 5, flags: HELLO, rows: 0 }),
      message({}),
      message({ rowBytes: 8, session: 78 }),
    );
    await held(4);
    whole();
    const said = await shared.client.hGet(keys.acks, sessionName(77));
    expect(said).to.match(/^\d+:0:0:0:its rows have another layout than the learner’s/);
    expect(said).to.include('value float64[4]');

    // A host that still has the layout of an earlier learner.
    const other = ReplayBuffer.create({
      capacity: 10,
      fields: { value: { shape: [3], dtype: 'float64' } },
    });
    const layout = layoutText(other as never);
    const info = await shared.client.hGetAll(keys.info);
    await shared.client.hSet(keys.info, { layout, sum: `${layoutSum(layout)}` });
    const { entry, to } = leash('other');
    to(0);
    const odd = await host({ url: shared.url, run, entry, name: 'odd' });
    const error = await rejection(odd.done);
    expect(error).to.include({ code: 'ERR_HOTSLOT_UNAVAILABLE' });
    expect(error.message)
      .to.include('the learner rejects this host')
      .and.include('value float64[4]');
    await shared.client.hSet(keys.info, info);
    other.close();
    expect((buffer as ReplayBuffer).ptr).to.equal(520);
  });

  itLonger(
    'the learner stores the rows of repeated messages once and counts `duplicates`',
    async () => {
      const { message, send, held, remote, buffer } = await attacked('rows');
      const numbered = (first: number, rows: number, base = 0) =>
        message({ session: 90, first, rows, base }, (view) => {
          for (let row = 0; row < rows; row++) view.setFloat64(32 * row + 16, first + row, true);
        });
      const recorded = [numbered(0, 5), numbered(5, 7), numbered(12, 1), numbered(3, 10)];
      await send(...recorded, numbered(20, 4));
      const again = setting({ short: 50, all: 150, long: 2000 });
      for (let i = 0; i < again; i++) await send(...recorded.reverse());
      await send(numbered(10, 6, 10));
      await held(0);
      await untilAsked('all is counted', () => {
        const { duplicates, rows } = remote.statistics();
        return duplicates === 4 * again + 1 && rows === 520 + 16;
      });
      expect(remote.statistics()).to.include({ gaps: 1, lost: 0, rows: 520 + 16 });
      const numbers = numbersIn(buffer).get('0/0');
      expect(numbers).to.deep.equal(Array.from({ length: 16 }, (_, i) => i));
    },
  );

  itLonger(
    'the learner admits no session for a flood of messages with a wrong layout',
    async () => {
      const many = setting({ short: 2000, all: 70_000 });
      const { keys, message, held, whole, remote } = await attacked('rows');
      const flood = Array.from({ length: many }, (_, i) =>
        message({ session: 1000 + i, layout: 9 }),
      );
      // Scripts add the messages. A call for each of them would take a minute.
      const adds =
        'for _, bytes in ipairs(ARGV) do redis.call("XADD", KEYS[1], "*", "m", bytes) end';
      for (let from = 0; from < many; from += 2000) {
        const some = flood.slice(from, from + 2000).map((bytes) => Buffer.from(bytes));
        await shared.client.sendCommand(['EVAL', adds, '1', keys.stream(0), ...some]);
      }
      await held(many);
      whole();
      expect(remote.statistics().hosts).to.equal(1);
    },
  );

  it('the learner ends a session with invalid steps and frees its lanes', async () => {
    const { message, send, held, whole, remote } = await attacked('steps');
    const step = (lane: number, kind: number) => (rows: DataView) => {
      rows.setUint16(0, lane, true);
      rows.setUint16(2, kind, true);
    };
    const bad = [
      message({ session: 101 }, step(1, 0)),
      message({ session: 102 }, step(0, 16)),
      message({ session: 103 }, step(0, 4)),
      message({ session: 104 }, step(0, 1)),
      message({ session: 105, lanes: 0 }, step(0, 0)),
      message({ session: 106, lanes: 50_000 }, step(0, 0)),
    ];
    // The sessions use the same lane one after the other, because each was ended.
    await send(...bad);
    await held(bad.length);
    whole();
    await untilAsked('they are gone', () => remote.statistics().hosts === 1);
  });

  itAll(
    'the learner ignores invalid statistics of hosts and still reads those of a valid host',
    async () => {
      const { keys, message, send, held, whole, remote } = await attacked('rows');
      const odd = ['{', '[]', '{"host":5}', `{"host":"${'x'.repeat(9000)}"}`, 'null', '\u0000'];
      for (const [i, garbage] of odd.entries()) {
        await shared.client.hSet(keys.stat(120 + i), 'said', garbage);
        await send(message({ session: 120 + i, rows: 0, flags: HELLO }));
      }
      await held(0);
      // The bad sessions do not keep the learner from reading the valid host.
      await untilAsked(
        'all were looked at',
        () => remote.statistics().hosts === 7 && remote.statistics().steps === 520,
      );
      expect(remote.statistics()).to.include({ hosts: 7, connected: true });
      await shared.client.set(keys.stat(119), 'of another kind');
      await send(message({ session: 119, rows: 0, flags: HELLO }));
      await held(0);
      await untilAsked('it is there', () => remote.statistics().steps === 1020);
      whole();
    },
  );

  it('a host rejects when the server has invalid information about the run', async () => {
    const run = newRun();
    const keys = keysOf(run);
    const remote = await learn({ url: shared.url, run, buffer: bufferOf('rows') });
    const info = await shared.client.hGetAll(keys.info);
    const { entry } = leash();
    const odd: [Record<string, string>, RegExp][] = [
      [{ protocol: '2' }, /the learner speaks protocol 2, this host 1/],
      [{ layout: info.layout!.replace('float64', 'float32') }, /its layout is damaged/],
      [{ weights: '1e12' }, /weights is odd/],
      [{ shards: 'x' }, /shards is odd/],
      [{ options: '{' }, /JSON/],
      [{ layout: '{}', sum: `${layoutSum('{}')}` }, /cannot be used/],
      [{ layout: 'null', sum: `${layoutSum('null')}` }, /cannot be used/],
      [forgedLayout(info.layout!, (told) => ({ ...told, rowBytes: 0 })), /./],
      [forgedLayout(info.layout!, (told) => ({ ...told, of: 'x' })), /./],
    ];
    for (const [change, text] of odd) {
      await shared.client.hSet(keys.info, change);
      const error = await rejection(host({ url: shared.url, run, entry }));
      expect(error, `${text}: ${error.message}`).to.include({ code: 'ERR_HOTSLOT_UNAVAILABLE' });
      expect(error.message).to.match(text);
      await shared.client.hSet(keys.info, info);
    }
    expect(remote.statistics().refused).to.equal(0);
  });
  const forgedLayout = (text: string, change: (told: object) => object): Record<string, string> => {
    const layout = JSON.stringify(change(JSON.parse(text)));
    return { layout, sum: `${layoutSum(layout)}` };
  };
});
