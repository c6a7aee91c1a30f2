/**
 * A process that looks at a live page when it is told to: it reads the stream of events and throws
 * it away.
 */
import { type ClientRequest, get } from 'node:http';

let request: ClientRequest | null = null;

process.on('message', (url: string | null) => {
  request?.destroy();
  request = null;
  if (url === null) return;
  request = get(`${url}events`, (response) => response.resume());
  // Its end is what is asked for.
  request.on('error', () => {});
});
process.on('disconnect', () => process.exit());
