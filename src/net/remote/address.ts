/**
 * The address of the server and the user, checked before anything is sent. A function returns the
 * password, so that no error text, inspect() or JSON of an address shows it.
 */
import { readFileSync } from 'node:fs';
import { isIPv4 } from 'node:net';
import { describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';

/** Connection options of both learners and hosts. */
export interface RemoteServerOptions {
  /** true permits unencrypted connections to other machines, which are refused by default */
  readonly insecure?: boolean | undefined;
  /**
   * password of the URL's user (default: the URL's, else HOTSLOT_REDIS_PASSWORD in the environment)
   */
  readonly password?: string | undefined;
  /** certificates to trust, as a file's path or PEM text (default: the system's) */
  readonly ca?: string | undefined;
}

export interface AddressOptions extends RemoteServerOptions {
  readonly url: string;
  readonly username?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
}

export interface Address {
  /** the URL without a password, for texts and logs */
  readonly shown: string;
  readonly host: string;
  readonly port: number;
  /** path of a unix socket, or '' for another address */
  readonly path: string;
  readonly tls: boolean;
  /** PEM, or undefined for the system's authorities */
  readonly ca: string | undefined;
  readonly database: number;
  readonly username: string | undefined;
  readonly password: () => string | undefined;
}

const PLAIN = ['redis:', 'valkey:', 'unix:'];
const TLS = ['rediss:', 'valkeys:'];
const LIKE = 'it must be like rediss://user@host:6380';

export function checkAddress(options: AddressOptions): Address {
  const { insecure = false, env = process.env } = options;
  const url = parse(options.url);
  if (typeof insecure !== 'boolean')
    throw typeError(`insecure must be a boolean, got ${describeValue(insecure)}`);
  const unix = url.protocol === 'unix:';
  const tls = TLS.includes(url.protocol);
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  const username = text('username', options.username) ?? (decoded(url.username) || undefined);
  const password =
    secret(options.password) ??
    (decoded(url.password) || undefined) ??
    (env.HOTSLOT_REDIS_PASSWORD || undefined);
  const user = username === undefined ? '' : `${encodeURIComponent(username)}@`;
  const database = unix ? 0 : databaseOf(url.pathname);
  const where = unix
    ? `unix://${user}${url.pathname}`
    : `${url.protocol}//${user}${url.host}${url.pathname}`;
  if (username !== undefined && username !== 'default' && password === undefined)
    throw rangeError(
      `${where} names a user, but no password is given; pass password, or set HOTSLOT_REDIS_PASSWORD in the environment`,
    );
  if (!tls && !insecure && !unix && !isLoopback(host))
    throw rangeError(
      `${where} is unencrypted on a network, where anyone may read rows and password, and write; use rediss://, or pass insecure: true if the network is private`,
    );
  const ca = certificates(options.ca);
  if (ca !== undefined && !tls)
    throw rangeError(`ca is for TLS, and ${where} has none: use rediss://`);
  return {
    shown: where,
    host,
    port: url.port === '' ? 6379 : Number(url.port),
    path: unix ? decoded(url.pathname) : '',
    tls,
    ca,
    username,
    password: () => password,
    database,
  };
}

/**
 * Parses the URL. Does not pass on an error of `new URL()`, because that contains the given URL
 * with its password.
 */
function parse(url: unknown): URL {
  if (typeof url !== 'string')
    throw typeError(`url must be a string, got ${describeValue(url)}: ${LIKE}`);
  const [, protocol = ''] = /^([a-z+]+:)\/\//i.exec(url) ?? [];
  const known = [...PLAIN, ...TLS];
  if (!known.includes(protocol.toLowerCase()))
    throw rangeError(
      `url must begin with ${known.map((each) => `${each}//`).join(', ')}, and does not; ${LIKE} or unix:///run/redis.sock`,
    );
  // A URL without a host cannot have a user, so a unix socket with a user gets the host `socket`.
  const [, user, path] = /^unix:\/\/(?:([^/]*)@)?(\/.*)?$/i.exec(url) ?? [];
  const standard =
    protocol.toLowerCase() === 'unix:'
      ? `unix://${user === undefined ? '' : `${user}@socket`}${path}`
      : url;
  let parsed: URL | null = null;
  try {
    parsed = new URL(standard);
  } catch {
    // The error is thrown below.
  }
  const lacks = protocol.toLowerCase() === 'unix:' ? (path ?? '/') === '/' : !parsed?.hostname;
  if (parsed === null || lacks) throw rangeError(`url is not a valid URL; ${LIKE}`);
  if (parsed.search !== '' || parsed.hash !== '')
    throw rangeError(`url must end before ? or #, because the rest would be ignored; ${LIKE}`);
  return parsed;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw rangeError(
      `url has a % that is not part of an escape; write a literal % as %25; ${LIKE}`,
    );
  }
}

function text(name: string, value: unknown): string | undefined {
  if (value !== undefined && typeof value !== 'string')
    throw typeError(`${name} must be a string, got ${describeValue(value)}`);
  return value;
}

/**
 * Checks a password. The error does not show a value of a wrong type, because it may still be the
 * password.
 */
function secret(value: unknown): string | undefined {
  if (value === undefined || (typeof value === 'string' && value !== ''))
    return value as string | undefined;
  throw typeError(
    `password must be a string of at least one character, got ${value === '' ? 'none' : `a ${typeof value}`}`,
  );
}

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));

/**
 * Returns the database's number. The error does not show the path. If a password contains an
 * unescaped slash, the path contains a part of the password.
 */
function databaseOf(path: string): number {
  const found = /^\/?(\d{0,5})$/.exec(path);
  if (found === null)
    throw rangeError(
      `the path of url must be empty or a database number; write the / of a user or password as %2F; ${LIKE}`,
    );
  return Number(found[1]);
}

function certificates(ca: unknown): string | undefined {
  const given = text('ca', ca);
  if (given === undefined || given.includes('-----BEGIN CERTIFICATE-----')) return given;
  let read: string;
  try {
    read = readFileSync(given, 'utf8');
  } catch (error) {
    throw rangeError(
      `ca must be PEM text or a file of it; ${describeValue(given)} cannot be read: ${(error as Error).message}`,
    );
  }
  if (!read.includes('-----BEGIN CERTIFICATE-----'))
    throw rangeError(`ca: ${describeValue(given)} holds no PEM certificate`);
  return read;
}
