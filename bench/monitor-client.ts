/**
 * A client of the monitor's live page in a process. It opens the event stream at the URL that it is
 * sent, and discards the events.
 */
import { type ClientRequest, get } from 'node:http';

let request: ClientRequest | null = null;

process.on('message', (url: string | null) => {
  request?.destroy();
  request = null;
  if (url === null) return;
  request = get(`${url}events`, (response) => response.resume());
  // The stream ends with an error when this process destroys the request.
  request.on('error', () => {});
});
process.on('disconnect', () => process.exit());
