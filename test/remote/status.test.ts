/**
 * Tests the status that a learner writes about its hosts. readStatus() must accept a complete
 * status, and name the wrong field of any other.
 */
import { expect } from 'chai';
import { readStatus, writeStatus } from '../../src/net/remote/status.ts';
import type { RemoteStatus } from '../../src/run/collectors/remote-status.ts';
import { refusal } from '../rig/refusal.ts';
import { aHost, aStatus } from './statuses.ts';

const bytesOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

describe('writeStatus() and readStatus()', () => {
  it('round-trip a status with 0 or 1,000 hosts, and drop unknown fields', () => {
    const empty = aStatus({ lag: { p50: null, p99: null } });
    const many = aStatus(
      {},
      Array.from({ length: 1000 }, (_, at) =>
        aHost({ session: at, meanReturn: at % 2 ? -at : null }),
      ),
    );
    for (const status of [empty, many])
      expect(readStatus(writeStatus(status))).to.deep.equal(status);
    const more = { ...many, password: 'x', hosts: [{ ...aHost(), other: 1 }] };
    expect(readStatus(bytesOf(more))).to.deep.equal({ ...many, hosts: [aHost()] });
  });

  it('readStatus() throws with the name of each field that is missing or of a wrong type', () => {
    const spoil = (path: readonly string[], value: unknown): Uint8Array => {
      const status = structuredClone(aStatus({}, [aHost()])) as unknown as Record<string, unknown>;
      let at = status;
      for (const name of path.slice(0, -1)) at = at[name] as Record<string, unknown>;
      at[path.at(-1)!] = value;
      return bytesOf(status);
    };
    const paths = [
      ...Object.keys(aStatus()).map((name) => [name]),
      ...Object.keys(aHost()).map((name) => ['hosts', '0', name]),
      ...['lag', 'versionLag'].flatMap((name) => ['p50', 'p99'].map((end) => [name, end])),
    ];
    for (const path of paths)
      for (const value of [undefined, true, [], {}, -1, 'x'.repeat(1001)]) {
        // A mean return may be negative, and there may be many hosts.
        if (value === -1 && path.at(-1) === 'meanReturn') continue;
        if (Array.isArray(value) && path.at(-1) === 'hosts') continue;
        const error = refusal(() => readStatus(spoil(path, value)));
        expect(error, path.join('.')).to.be.instanceOf(RangeError);
        expect(error.message).to.match(/^this is not a learner's status: /);
        expect(error.message).to.include(path.at(-1) === '0' ? 'hosts[0]' : path.at(-1)!);
        expect(error.message.length).to.be.lessThan(200);
      }
    for (const path of [['gated'], ['windowFull']])
      expect(refusal(() => readStatus(spoil(path, 1.01))).message).to.match(/is 1\.01$/);
    expect(refusal(() => readStatus(spoil(['hosts', '0', 'state'], 'happy'))).message).to.match(
      /state is 'happy'$/,
    );
  });

  it('readStatus() throws for invalid JSON, a value of a wrong type, or too much data', () => {
    for (const bytes of [
      new Uint8Array(),
      new Uint8Array([0xff, 0xfe]),
      bytesOf(aStatus()).subarray(1),
    ])
      expect(refusal(() => readStatus(bytes)).message).to.match(/it is no JSON$/);
    for (const value of [null, 1, 'text', [aStatus()]])
      expect(refusal(() => readStatus(bytesOf(value)))).to.be.instanceOf(RangeError);
    // An inherited property must not count as a field.
    const odd = '{"__proto__":{"time":1}}';
    expect(refusal(() => readStatus(new TextEncoder().encode(odd))).message).to.match(
      / is undefined$/,
    );
    expect(refusal(() => readStatus(new Uint8Array(32 * 2 ** 20 + 1))).message).to.match(
      /bytes are more than one has$/,
    );
    const crowd = { ...aStatus(), hosts: Array.from({ length: 65_537 }, () => 0) };
    expect(refusal(() => readStatus(bytesOf(crowd))).message).to.match(
      /hosts is an array of 65537$/,
    );
  });

  it('readStatus() replaces control characters in texts', () => {
    const host = aHost({
      host: '\u001b[2Jroot\u009b1m',
      why: 'a\nb\u202ec\u200b',
      state: 'failed',
    });
    const read: RemoteStatus = readStatus(writeStatus(aStatus({}, [host])));
    expect(read.hosts[0]).to.include({ host: '?[2Jroot?1m', why: 'a?b?c?' });
  });
});
