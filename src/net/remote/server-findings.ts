/**
 * Findings about a server that is to carry rows, from the report of doctor.ts. Each finding says
 * whether a check passed, and what to do.
 */
import type { ServerReport } from './doctor.ts';

export interface ServerFinding {
  /** name of the check */
  readonly check: string;
  /** false if it must be fixed before the server carries rows */
  readonly ok: boolean;
  readonly text: string;
  /** what to do if the check failed, or if the server could be set up better */
  readonly advice?: string;
  readonly facts: object;
}

type Version = readonly [major: number, minor: number, patch: number];

/** Text for a value that this user may not see. */
const UNSEEN = 'this user may not see it; use the user of an administrator';
/** The first version with `XTRIM … MINID`. */
const OLDEST: Version = [6, 2, 0];
/** The first version whose access rules distinguish reading a key from writing it. */
const KEY_RULES: Version = [7, 0, 0];
/** CVE-2026-23479: a client that waits in a blocking read may crash the server, or more. */
const BLOCKING: readonly [from: Version, fixed: Version] = [
  [7, 2, 0],
  [8, 6, 3],
];
/**
 * CVE-2025-49844: a script may escape from Lua. These are the first fixed releases of each line of
 * versions.
 */
const LUA_FIXED: Readonly<Record<string, readonly string[]>> = {
  redis: ['6.2.20', '7.2.11', '7.4.6', '8.0.4', '8.2.2'],
  valkey: ['7.2.11', '8.0.6', '8.1.4'],
};

export function findingsOf(report: ServerReport): readonly ServerFinding[] {
  return [
    server(report),
    mode(report),
    transport(report),
    roundTrip(report),
    throughput(report),
    memory(report),
    persistence(report),
    users(report),
    scripts(report),
    backlog(report),
  ].filter((finding) => finding !== null);
}

function versionOf(text: string | null): Version | null {
  const found = /^(\d+)\.(\d+)(?:\.(\d+))?/.exec(text ?? '');
  return found && [Number(found[1]), Number(found[2]), Number(found[3] ?? 0)];
}
const before = (a: Version, b: Version) => (a[0] - b[0] || a[1] - b[1] || a[2] - b[2]) < 0;

function server({ server: name, version: text, shown, user }: ServerReport): ServerFinding {
  const finding = {
    check: 'server',
    text: `${name} ${text ?? 'of a version that this user may not see'} at ${shown}, as ${user}`,
    facts: { server: name, version: text, user },
  };
  const version = versionOf(text);
  if (version === null || name === 'valkey') return { ...finding, ok: true };
  if (before(version, OLDEST))
    return {
      ...finding,
      ok: false,
      advice: `${name} ${text} is too old: install 6.2 or newer, or Valkey`,
    };
  if (!before(version, BLOCKING[0]) && before(version, BLOCKING[1])) {
    const advice =
      'CVE-2026-23479: a user who can log in can escape from its blocking reads; install 8.6.3, or a release that the distributor patched';
    return { ...finding, ok: true, advice };
  }
  if (before(version, KEY_RULES)) {
    const advice =
      'the users of hotslot acl need 7.0 or newer: here a collector can read what it can write';
    return { ...finding, ok: true, advice };
  }
  return { ...finding, ok: true };
}

/** Returns null if the server is standalone and accepts rows, as it should. */
function mode({ mode: set, role }: ServerReport): ServerFinding | null {
  const facts = { mode: set, role };
  if (set === 'cluster' || set === 'sentinel') {
    const text =
      set === 'cluster' ? 'it is one of a cluster' : 'it is a sentinel, which stores no data';
    return {
      check: 'mode',
      ok: false,
      text,
      advice: 'give the url of a standalone server',
      facts,
    };
  }
  if (role === 'master' || role === null) return null;
  return {
    check: 'mode',
    ok: false,
    text: `it is a ${role}`,
    advice: 'give the url of its master',
    facts,
  };
}

function transport({ tls, local }: ServerReport): ServerFinding {
  const text = tls
    ? 'with TLS'
    : local
      ? 'unencrypted, on this machine only'
      : 'unencrypted over the network';
  const advice =
    'anyone on the way reads rows and passwords: give the server a certificate and use rediss://';
  return {
    check: 'transport',
    ok: true,
    text,
    ...(tls || local ? {} : { advice }),
    facts: { tls, local },
  };
}

function roundTrip({ roundTrip: found }: ServerReport): ServerFinding {
  if (found === null)
    return {
      check: 'round trip',
      ok: true,
      text: 'not measured: this user may not PING',
      facts: {},
    };
  const { p50, p99, pings } = found;
  const text = `p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms of ${pings}`;
  return { check: 'round trip', ok: true, text, facts: { p50, p99, pings } };
}

function throughput({ bytesPerSecond: found }: ServerReport): ServerFinding {
  if (typeof found === 'string') return { check: 'throughput', ok: true, text: found, facts: {} };
  const text = `${(found / 1e6).toFixed(0)} MB/s into a stream and back, in messages of 256 KiB`;
  return { check: 'throughput', ok: true, text, facts: { bytesPerSecond: found } };
}

function memory({ maxmemory, eviction }: ServerReport): ServerFinding {
  const facts = { maxmemory, eviction };
  if (maxmemory === null || eviction === null)
    return { check: 'memory', ok: true, text: UNSEEN, facts };
  const bound =
    maxmemory === 0 ? 'no bound (maxmemory 0)' : `${(maxmemory / 1e6).toFixed(0)} MB at most`;
  const finding = { check: 'memory', text: `${bound}, ${eviction}`, facts };
  if (eviction !== 'noeviction') {
    const advice =
      'a full server would drop rows and leases on its own: set maxmemory-policy noeviction';
    return { ...finding, ok: maxmemory === 0, advice };
  }
  if (maxmemory > 0) return { ...finding, ok: true };
  return {
    ...finding,
    ok: true,
    advice:
      'set maxmemory to the bytes that it may use: twice the transitBytes of its runs, and their weights, is plenty',
  };
}

function persistence({ save, appendOnly }: ServerReport): ServerFinding {
  const facts = { save, appendOnly };
  if (save === null && appendOnly === null)
    return { check: 'persistence', ok: true, text: UNSEEN, facts };
  const snapshots =
    save === null ? 'snapshots unknown' : save === '' ? 'no snapshots' : `snapshots (save ${save})`;
  const log =
    appendOnly === null
      ? 'log unknown'
      : appendOnly
        ? 'a log of all writes (appendonly yes)'
        : 'no log';
  const set = [...(save ? ['save ""'] : []), ...(appendOnly ? ['appendonly no'] : [])];
  const advice = `lost rows are sent again, so writing to disk only costs time; set ${set.join(' and ')}`;
  return {
    check: 'persistence',
    ok: true,
    text: `${snapshots}, ${log}`,
    ...(set.length > 0 ? { advice } : {}),
    facts,
  };
}

/**
 * Reports whether anyone can log in without a password. On a network, the check fails in that case.
 * On this machine, the owner decides.
 */
function users({ open, protectedMode, local }: ServerReport): ServerFinding {
  const guard = protectedMode === null ? '' : `, protected mode ${protectedMode ? 'on' : 'off'}`;
  const facts = { open, protectedMode };
  if (!open)
    return { check: 'users', ok: true, text: `no access without a password${guard}`, facts };
  return {
    check: 'users',
    ok: local,
    text: `anyone who reaches it, as the default user has no password${guard}`,
    advice:
      'hotslot acl --run NAME makes users; then ACL SETUSER default off, or give it a password',
    facts,
  };
}

/** Returns null if this user may not run scripts, or if no fault of the server's Lua is known. */
function scripts({
  mayRunScripts,
  server: name,
  version: text,
}: ServerReport): ServerFinding | null {
  const version = versionOf(text);
  const fixed = LUA_FIXED[name]?.map((each) => versionOf(each)!);
  if (!mayRunScripts || version === null || fixed === undefined) return null;
  const newest = fixed.at(-1)!;
  const own = fixed.find(([major, minor]) => major === version[0] && minor === version[1]);
  if (own === undefined ? !before(version, newest) : !before(version, own)) return null;
  return {
    check: 'scripts',
    ok: true,
    text: `this user may run scripts, and scripts can escape in ${name} ${text} (CVE-2025-49844), unless the distributor patched it`,
    advice: `use the users of hotslot acl, who cannot run scripts, or install ${(own ?? newest).join('.')}`,
    facts: { mayRunScripts },
  };
}

/** Returns null if this user may not see the setting. */
function backlog({ backlog: set }: ServerReport): ServerFinding | null {
  if (set === null) return null;
  const text = `${set} connections may wait to be accepted (tcp-backlog)`;
  const advice =
    'for hundreds of hosts that connect at once: tcp-backlog 1024, and net.core.somaxconn as high';
  return {
    check: 'backlog',
    ok: true,
    text,
    ...(set < 1024 ? { advice } : {}),
    facts: { backlog: set },
  };
}
