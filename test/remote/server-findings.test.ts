/**
 * Tests the findings about a server that are derived from its report, for versions and settings
 * that no test can start.
 */
import { expect } from 'chai';
import type { ServerReport } from '../../src/net/remote/doctor.ts';
import { findingsOf } from '../../src/net/remote/server-findings.ts';

/** The report of a server without problems. */
const well: ServerReport = {
  shown: 'rediss://ann@broker:6380',
  tls: true,
  local: false,
  user: 'ann',
  server: 'redis',
  version: '8.6.3',
  mode: 'standalone',
  role: 'master',
  roundTrip: { p50: 0.2, p99: 1.25, pings: 200 },
  bytesPerSecond: 4.2e8,
  maxmemory: 1e9,
  eviction: 'noeviction',
  save: '',
  appendOnly: false,
  backlog: 1024,
  protectedMode: true,
  mayRunScripts: true,
  open: false,
};
const said = (seen: Partial<ServerReport>, check: string) =>
  findingsOf({ ...well, ...seen }).find((finding) => finding.check === check);
const advised = (seen: Partial<ServerReport>) =>
  findingsOf({ ...well, ...seen })
    .filter(({ ok, advice }) => !ok || advice !== undefined)
    .map(({ check, ok }) => `${ok ? '' : '!'}${check}`);

describe('findingsOf()', () => {
  it('returns no failure and no advice for a server without problems', () => {
    expect(advised({})).to.deep.equal([]);
    expect(findingsOf(well).map(({ text }) => text)).to.deep.equal([
      'redis 8.6.3 at rediss://ann@broker:6380, as ann',
      'with TLS',
      'p50 0.20 ms, p99 1.25 ms of 200',
      '420 MB/s into a stream and back, in messages of 256 KiB',
      '1000 MB at most, noeviction',
      'no snapshots, no log',
      'no access without a password, protected mode on',
      '1024 connections may wait to be accepted (tcp-backlog)',
    ]);
  });

  it('returns failures for harmful settings, and advice for settings that could be better', () => {
    expect(advised({ eviction: 'allkeys-lru' })).to.deep.equal(['!memory']);
    expect(said({ eviction: 'volatile-ttl' }, 'memory')!.advice).to.match(
      /set maxmemory-policy noeviction$/,
    );
    // Without a memory limit nothing is evicted until somebody sets a limit.
    expect(advised({ eviction: 'volatile-ttl', maxmemory: 0 })).to.deep.equal(['memory']);
    expect(advised({ maxmemory: 0 })).to.deep.equal(['memory']);
    expect(said({ save: '3600 1', appendOnly: true }, 'persistence')).to.deep.include({
      text: 'snapshots (save 3600 1), a log of all writes (appendonly yes)',
      advice:
        'lost rows are sent again, so writing to disk only costs time; set save "" and appendonly no',
    });
    expect(advised({ tls: false })).to.deep.equal(['transport']);
    expect(advised({ tls: false, local: true })).to.deep.equal([]);
    expect(advised({ backlog: 511 })).to.deep.equal(['backlog']);
    expect(advised({ open: true })).to.deep.equal(['!users']);
    expect(advised({ open: true, local: true })).to.deep.equal(['users']);
    expect(advised({ role: 'replica' })).to.deep.equal(['!mode']);
    expect(advised({ mode: 'cluster' })).to.deep.equal(['!mode']);
    expect(advised({ mode: 'sentinel' })).to.deep.equal(['!mode']);
  });

  it('reports hidden settings as unknown, without a failure or advice', () => {
    const blind = {
      maxmemory: null,
      eviction: null,
      save: null,
      appendOnly: null,
      backlog: null,
      protectedMode: null,
    };
    const seen = {
      ...blind,
      version: null,
      roundTrip: null,
      bytesPerSecond: 'not measured: because',
      mayRunScripts: false,
    };
    expect(advised(seen)).to.deep.equal([]);
    expect(
      findingsOf({ ...well, ...seen }).map(({ check, text }) => `${check}: ${text}`),
    ).to.include.members([
      'server: redis of a version that this user may not see at rediss://ann@broker:6380, as ann',
      'round trip: not measured: this user may not PING',
      'throughput: not measured: because',
      'memory: this user may not see it; use the user of an administrator',
      'persistence: this user may not see it; use the user of an administrator',
      'users: no access without a password',
    ]);
    expect(said({ save: null, appendOnly: true }, 'persistence')!.text).to.match(
      /^snapshots unknown, a log/,
    );
  });

  it('fails for versions before 6.2, and advises on versions with known problems', () => {
    const server = (version: string, name = 'redis') => {
      const { ok, advice = '' } = said({ version, server: name }, 'server')!;
      return `${ok ? '' : '!'}${/CVE-2026-23479|too old|hotslot acl/.exec(advice)?.[0] ?? ''}`;
    };
    expect(['5.0.14', '6.0.16', '6.1.240'].map((each) => server(each))).to.deep.equal(
      Array(3).fill('!too old'),
    );
    expect(['6.2.0', '6.2.20'].map((each) => server(each))).to.deep.equal(
      Array(2).fill('hotslot acl'),
    );
    expect(
      ['7.0.0', '7.0.15', '8.6.3', '8.8.0', '9.0.0'].map((each) => server(each)),
    ).to.deep.equal(Array(5).fill(''));
    expect(['7.2.0', '7.4.6', '8.0.4', '8.6.2'].map((each) => server(each))).to.deep.equal(
      Array(4).fill('CVE-2026-23479'),
    );
    expect(['7.2.11', '8.1.4', '9.0.0'].map((each) => server(each, 'valkey'))).to.deep.equal(
      Array(3).fill(''),
    );
  });

  it('names CVE-2025-49844 and the fixed version only to users who may run scripts', () => {
    const lua = (version: string, name = 'redis', mayRunScripts = true) => {
      const found = said({ version, server: name, mayRunScripts }, 'scripts');
      if (found === undefined) return '';
      expect(found.text).to.include('CVE-2025-49844').and.include(`${name} ${version}`);
      return /install ([\d.]+)$/.exec(found.advice!)![1];
    };
    const of = (versions: string[], name?: string) => versions.map((version) => lua(version, name));
    expect(of(['6.2.19', '7.0.15', '7.2.10', '7.4.5', '8.0.3', '8.2.1'])).to.deep.equal([
      '6.2.20',
      '8.2.2',
      '7.2.11',
      '7.4.6',
      '8.0.4',
      '8.2.2',
    ]);
    expect(of(['6.2.20', '7.2.11', '7.4.6', '8.0.4', '8.2.2', '8.4.0', '9.0.0'])).to.deep.equal(
      Array(7).fill(''),
    );
    expect(of(['7.2.10', '8.0.5', '8.1.3'], 'valkey')).to.deep.equal(['7.2.11', '8.0.6', '8.1.4']);
    expect(of(['7.2.11', '8.1.4', '9.0.0'], 'valkey')).to.deep.equal(Array(3).fill(''));
    expect(lua('7.0.15', 'redis', false)).to.equal('');
    expect(lua('1.2.3', 'dragonfly')).to.equal('');
  });
});
