/**
 * The address on which a monitor listens, and the requests that it answers. A page of another site
 * must not read it through a name of its own choice.
 */
import type { IncomingMessage } from 'node:http';
import { hostname } from 'node:os';

const LOCAL = ['localhost', '127.0.0.1', '[::1]'];

export const isLoopback = (host: string) => /^(localhost|127(\.\d+){3}|::1)$/i.test(host);
const isAny = (host: string) => /^(0\.0\.0\.0|::)$/.test(host);
const inUrl = (address: string) => (address.includes(':') ? `[${address}]` : address).toLowerCase();

/** Returns the URL for a browser. */
export const urlOf = (host: string, port: number) =>
  `http://${isAny(host) ? hostname() : inUrl(host)}:${port}/`;

/** Returns the name in a Host header, without its port, or null if the header has another form. */
function nameIn(header: string | undefined): string | null {
  return /^(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d{1,5})?$/i.exec(header ?? '')?.[1]?.toLowerCase() ?? null;
}

/**
 * True if the request was meant for this server. Its Host must be this machine's own name, the host
 * asked for, or the address of the connection, because none of these can belong to another site. An
 * Origin, if sent, must be this server.
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
