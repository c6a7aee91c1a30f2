/** Inspects a server that is to carry rows: its speed, its settings, and who may log in. */
import { randomInt } from 'node:crypto';
import type { Address } from './address.ts';
import { type AdminConnection, openAdminConnection, type Reply } from './admin-connection.ts';
import { keysOf } from './keys.ts';
import { BEFORE_FIRST, LinkError } from './link.ts';

/** The findings of an inspection. A value is null if this user may not see it. */
export interface ServerReport {
  readonly shown: string;
  readonly tls: boolean;
  /** whether the server is on this machine */
  readonly local: boolean;
  readonly user: string;
  readonly server: string;
  readonly version: string | null;
  readonly mode: string | null;
  readonly role: string | null;
  /** milliseconds of a PING, or null if this user may not call it */
  readonly roundTrip: { readonly p50: number; readonly p99: number; readonly pings: number } | null;
  /** throughput of writing messages and reading them back, or the reason why it was not measured */
  readonly bytesPerSecond: number | string;
  readonly maxmemory: number | null;
  readonly eviction: string | null;
  /** the server's setting `save`: when it writes its memory to disk */
  readonly save: string | null;
  readonly appendOnly: boolean | null;
  readonly backlog: number | null;
  readonly protectedMode: boolean | null;
  readonly mayRunScripts: boolean;
  /** whether anyone may log in without a password */
  readonly open: boolean;
}

const PINGS = 200;
/** Milliseconds after which no further PING begins. */
const PING_MS = 4000;
const MESSAGE_BYTES = 256 * 2 ** 10;
/** Number of messages that are sent at once. */
const MESSAGES = 8;
/**
 * Milliseconds after which the scratch key expires, if this process ends before it deletes the key.
 */
const SCRATCH_MS = 60_000;

/**
 * Inspects a server. Rejects with a one-line message if the server cannot be reached. `measureMs`
 * is the time for which the throughput is measured.
 */
export async function inspectServer(
  address: Address,
  measureMs = 1000,
  silenceMs?: number,
): Promise<ServerReport> {
  const how = silenceMs === undefined ? {} : { silenceMs };
  await using admin = await openAdminConnection({ address, ...how });
  const hello = named(await admin.may('HELLO'));
  const info = infoOf(await admin.may('INFO'));
  const config = async (name: string): Promise<string | null> => {
    const value = named(await admin.may('CONFIG', 'GET', name)).get(name);
    return typeof value === 'string' ? value : null;
  };
  const role = text(hello.get('role'));
  const flag = (value: string | null) => (value === null ? null : value === 'yes' || value === '1');
  return {
    shown: address.shown,
    tls: address.tls,
    local: address.path !== '' || /^(localhost|127\.[\d.]+|::1)$/.test(address.host),
    user: text(await admin.may('ACL', 'WHOAMI')) ?? address.username ?? 'default',
    server: text(hello.get('server')) ?? info.get('server_name') ?? 'redis',
    // Valkey also reports a version of Redis with which it is compatible, for older clients.
    version:
      info.get('valkey_version') ?? text(hello.get('version')) ?? info.get('redis_version') ?? null,
    mode: text(hello.get('mode')) ?? info.get('redis_mode') ?? null,
    role,
    roundTrip: await ping(admin),
    bytesPerSecond:
      role === 'master' ? await carry(admin, measureMs) : 'not measured: it cannot store rows',
    maxmemory: info.has('maxmemory') ? Number(info.get('maxmemory')) : null,
    eviction: info.get('maxmemory_policy') ?? null,
    save: await config('save'),
    appendOnly: flag((await config('appendonly')) ?? info.get('aof_enabled') ?? null),
    backlog: await config('tcp-backlog').then((value) => (value === null ? null : Number(value))),
    protectedMode: flag(await config('protected-mode')),
    // No script has this hash, so the server runs nothing. It replies NOSCRIPT if this user may run
    // scripts.
    mayRunScripts: await admin.call('EVALSHA', '0'.repeat(40), '0').then(
      () => true,
      (error) =>
        error instanceof LinkError && error.how === 'denied' && /NOSCRIPT/.test(error.message),
    ),
    open: await letsAnyoneIn(address, how),
  };
}

/** Measures round trips. Returns null if this user may not call PING. */
async function ping(admin: AdminConnection): Promise<ServerReport['roundTrip']> {
  if ((await admin.may('PING')) === undefined) return null;
  const took: number[] = [];
  const first = performance.now();
  for (
    let begin = first, end = first;
    took.length < PINGS && begin - first < PING_MS;
    begin = end
  ) {
    await admin.call('PING');
    end = performance.now();
    took.push(end - begin);
  }
  took.sort((a, b) => a - b);
  const at = (share: number) => took[Math.floor(took.length * share)]!;
  return { p50: at(0.5), p99: at(0.99), pings: took.length };
}

/** Writes messages to a stream and reads them back, as a run does. Leaves nothing on the server. */
async function carry(admin: AdminConnection, measureMs: number): Promise<number | string> {
  const key = keysOf('doctor').stream(randomInt(2 ** 31));
  try {
    // First checks the user's permissions, so that it creates no key that it could not delete.
    await admin.call('DEL', key);
    await admin.call('PEXPIRE', key, String(SCRATCH_MS));
    await admin.call('XREAD', 'COUNT', '1', 'STREAMS', key, BEFORE_FIRST);
    await admin.call('XTRIM', key, 'MAXLEN', '0');
    try {
      return await measure(admin, key, measureMs);
    } finally {
      await admin.call('DEL', key);
    }
  } catch (error) {
    if (!(error instanceof LinkError) || error.how === 'lost') throw error;
    if (/NOPERM/.test(error.message))
      return `not measured: this user may not create the stream ${key}`;
    return `not measured: ${error.message}`;
  }
}

async function measure(admin: AdminConnection, key: string, measureMs: number): Promise<number> {
  const message = Buffer.alloc(MESSAGE_BYTES, 0x5a);
  let carried = 0;
  const begin = performance.now();
  let spent: number;
  do {
    const added = Array.from({ length: MESSAGES }, () =>
      admin.call('XADD', key, '*', 'm', message),
    );
    const kept = admin.call('PEXPIRE', key, String(SCRATCH_MS));
    // Waits for all calls even if one fails, so that no other call rejects unhandled.
    for (const settled of await Promise.allSettled([...added, kept]))
      if (settled.status === 'rejected') throw settled.reason;
    await admin.bytes(
      MESSAGES * MESSAGE_BYTES,
      'XREAD',
      'COUNT',
      String(MESSAGES),
      'STREAMS',
      key,
      BEFORE_FIRST,
    );
    await admin.call('XTRIM', key, 'MAXLEN', '0');
    carried += MESSAGES * MESSAGE_BYTES;
    spent = performance.now() - begin;
  } while (spent < measureMs);
  return (carried / spent) * 1000;
}

/** Returns whether the server accepts and answers a connection without a password. */
async function letsAnyoneIn(address: Address, how: { silenceMs?: number }): Promise<boolean> {
  try {
    await using admin = await openAdminConnection({ address, anonymous: true, ...how });
    return (await admin.may('PING')) !== undefined;
  } catch {
    return false;
  }
}

const text = (value: Reply | undefined): string | null =>
  typeof value === 'string' ? value : null;

/** Converts an array of alternating names and values to a map. */
function named(reply: Reply | undefined): ReadonlyMap<string, Reply> {
  const found = new Map<string, Reply>();
  if (Array.isArray(reply))
    for (let at = 0; at + 1 < reply.length; at += 2) found.set(String(reply[at]), reply[at + 1]);
  return found;
}

function infoOf(reply: Reply | undefined): ReadonlyMap<string, string> {
  const lines = typeof reply === 'string' ? reply.split(/\r?\n/) : [];
  return new Map(
    lines
      .map((line) => /^(\w+):(.*)$/.exec(line))
      .flatMap((found) => (found ? [[found[1]!, found[2]!]] : [])),
  );
}
