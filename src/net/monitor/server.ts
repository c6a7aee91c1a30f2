/**
 * The monitor's server. It refuses requests that are meant for another server, and answers all
 * others by their route. No request changes anything.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { callAfter } from '../../base/clock.ts';
import { unavailableError } from '../../base/errors.ts';
import { isMeant } from './hosts.ts';

/** Answers a GET request. Node omits the body of a HEAD request. */
export type Route = (
  request: IncomingMessage,
  response: ServerResponse,
  query: URLSearchParams,
) => void;

/**
 * Maximum number of open sockets: 32 for streams, and others for all other requests. Node closes
 * further ones at once.
 */
const MAX_SOCKETS = 128;

const common = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
} as const;

/** Sends a whole response. */
export function answer(response: ServerResponse, type: string, body: string | Uint8Array): void {
  response
    .writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) })
    .end(body);
}

/** Sends a refusal as one sentence. */
export function refuse(
  response: ServerResponse,
  status: number,
  sentence: string,
  headers: object = {},
): void {
  const body = `${sentence}\n`;
  const type = {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': Buffer.byteLength(body),
  };
  response.writeHead(status, { ...type, ...headers }).end(body);
}

/** Advice by the system's error code. */
const advice: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use; give another port, or 0 for any free port',
  EACCES: 'this user may not use the port; give a port from 1024 on',
  EADDRNOTAVAIL: 'this machine does not have this address; give one of its own',
  ENOTFOUND: 'this name is unknown; give an address of this machine',
  EAI_AGAIN: 'the name cannot be resolved; give an address of this machine',
};

/**
 * Starts a server that listens on a port of a host. Rejects with ERR_HOTSLOT_UNAVAILABLE if the
 * system refuses. Neither the server nor its sockets keep the process alive.
 */
export async function listen(
  { host, port }: { host: string; port: number },
  routes: Readonly<Record<string, Route>>,
): Promise<{ server: Server; port: number }> {
  const server = createServer(
    {
      maxHeaderSize: 8192,
      headersTimeout: 5000,
      requestTimeout: 10_000,
      keepAliveTimeout: 5000,
      connectionsCheckingInterval: 2000,
    },
    (request, response) => {
      for (const [name, value] of Object.entries(common)) response.setHeader(name, value);
      handle(request, response, host, routes);
    },
  );
  server.maxConnections = MAX_SOCKETS;
  server.on('connection', (socket) => socket.unref());
  await new Promise<void>((resolve, reject) => {
    const failed = (error: NodeJS.ErrnoException) => {
      const next = advice[error.code ?? ''] ?? 'see the cause';
      const text = `serveMonitor cannot listen on port ${port} of '${host}'; ${next} (${error.message})`;
      reject(unavailableError(text, 'ERR_HOTSLOT_UNAVAILABLE', error));
    };
    server.once('error', failed);
    server.listen({ host, port }, () => {
      server.off('error', failed);
      resolve();
    });
  });
  warnOnError(server);
  server.unref();
  return { server, port: (server.address() as AddressInfo).port };
}

/**
 * Emits one warning if connections cannot be accepted, for example without free file descriptors.
 * The run continues.
 */
function warnOnError(server: Server): void {
  let warned = false;
  server.on('error', ({ message }) => {
    if (!warned)
      process.emitWarning(`the monitor could not take a connection: ${message}`, 'MonitorWarning');
    warned = true;
  });
}

/**
 * Refuses a request that waits for the response of an earlier request on the same connection. A
 * response that streams needs a separate connection. Returns whether it has refused.
 */
export function refuseQueued(response: ServerResponse): boolean {
  // Node gives a response its socket when the earlier responses of the connection have ended.
  if (response.socket !== null) return false;
  refuse(
    response,
    400,
    'this response streams for several seconds; request it on a separate connection',
    {
      connection: 'close',
    },
  );
  return true;
}

function handle(
  request: IncomingMessage,
  response: ServerResponse,
  host: string,
  routes: Readonly<Record<string, Route>>,
): void {
  // The server does not read the body of a request, so it closes the connection after the response.
  if (
    request.headers['content-length'] !== undefined ||
    request.headers['transfer-encoding'] !== undefined
  )
    response.setHeader('connection', 'close');
  if (!isMeant(request, host))
    return void refuse(
      response,
      403,
      'the monitor answers only requests for its own address; open the url that serveMonitor() returned',
    );
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return void refuse(response, 405, 'the monitor is read-only; use GET', { allow: 'GET, HEAD' });
  const [path = '', query = ''] = (request.url ?? '').split('?', 2);
  const route = Object.hasOwn(routes, path) ? routes[path] : undefined;
  if (!route)
    return void refuse(
      response,
      404,
      `unknown path; known paths: ${Object.keys(routes).join(' ')}`,
    );
  route(request, response, new URLSearchParams(query));
}

/** Stops listening. The last responses have up to 500 ms to arrive. */
export async function shut(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  using _ = callAfter(500, () => server.closeAllConnections());
  await closed;
}
