/**
 * Who a monitor listens to, and whose requests it answers: a page of another site must not read it
 * by a name that it made up.
 */
import type { IncomingMessage } from 'node:http';
import { hostname } from 'node:os';

const LOCAL = ['localhost', '127.0.0.1', '[::1]'];

export const isLoopback = (host: string) => /^(localhost|127(\.\d+){3}|::1)$/i.test(host);
const isAny = (host: string) => /^(0\.0\.0\.0|::)$/.test(host);
const inUrl = (address: string) => (address.includes(':') ? `[${address}]` : address).toLowerCase();

/** What a browser is told to open. */
export const urlOf = (host: string, port: number) =>
  `http://${isAny(host) ? hostname() : inUrl(host)}:${port}/`;

/** The name in a Host header, without its port; null when it is no such header. */
function nameIn(header: string | undefined): string | null {
  return /^(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d{1,5})?$/i.exec(header ?? '')?.[1]?.toLowerCase() ?? null;
}

/**
 * True when the request was meant for this server: its Host is this machine's own name for itself,
 * the host asked for, or the address that was connected to, none of which can be another site's;
 * and a page that sends an Origin is this one.
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
