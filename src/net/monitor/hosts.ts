/**
 * Decides which requests a monitor answers, and returns its URL. A page of another site must not
 * read the monitor through a host name that the site controls.
 */
import type { IncomingMessage } from 'node:http';
import { hostname } from 'node:os';

const LOCAL = ['localhost', '127.0.0.1', '[::1]'];

export const isLoopback = (host: string) => /^(localhost|127(\.\d+){3}|::1)$/i.test(host);
const isAny = (host: string) => /^(0\.0\.0\.0|::)$/.test(host);
const inUrl = (address: string) => (address.includes(':') ? `[${address}]` : address).toLowerCase();

/** Returns the URL at which a browser reaches the monitor. */
export const urlOf = (host: string, port: number) =>
  `http://${isAny(host) ? hostname() : inUrl(host)}:${port}/`;

/** Returns the name in a Host header, without its port, or null if the header has another form. */
function nameIn(header: string | undefined): string | null {
  return /^(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d{1,5})?$/i.exec(header ?? '')?.[1]?.toLowerCase() ?? null;
}

/**
 * Returns whether a request was meant for this server. Its Host header must be localhost, the
 * `host` on which the monitor listens, or the local address of the connection. If the monitor
 * listens on all addresses, this machine's name is allowed, too. Another site cannot own any of
 * these names. If an Origin header is sent, it must name this server.
 */
export function isMeant({ headers, socket }: IncomingMessage, host: string): boolean {
  const name = nameIn(headers.host);
  if (name === null) return false;
  const address = socket.localAddress?.replace(/^::ffff:/, '') ?? '';
  const known = [
    ...LOCAL,
    inUrl(host),
    inUrl(address),
    ...(isAny(host) ? [hostname().toLowerCase()] : []),
  ];
  if (!known.includes(name)) return false;
  return (
    headers.origin === undefined ||
    headers.origin.toLowerCase() === `http://${headers.host?.toLowerCase()}`
  );
}
