/** The clients of a storm's monitor: one asks correctly, the others behave as no web page would. */
import { request } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import type { WorldProcess } from './world-process.ts';

/**
 * Makes one client. Returns what it did, or null if no process was there to answer: it was killed,
 * or is closing.
 */
export async function ask(world: WorldProcess, pick: number, ms: number): Promise<string | null> {
  const { monitor } = world;
  if (monitor === null) return null;
  const { port } = new URL(monitor);
  const socket = connect(Number(port), '127.0.0.1');
  socket.on('error', () => {});
  // A killed or closing process may reset a connection at any time.
  const heard = (event: 'close' | 'data') => new Promise((resolve) => socket.once(event, resolve));
  const send = (text: string) => socket.write(text);
  const get = (path: string) => send(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
  try {
    switch (pick % 5) {
      case 0:
        return (await metrics(monitor)) ?? world.answered(monitor);
      case 1:
        get('/events');
        await Promise.race([heard('data'), heard('close'), wait(2000)]);
        return 'goes in the midst';
      case 2:
        // This client reads nothing of the response.
        get('/events');
        socket.pause();
        await wait(ms);
        return 'takes nothing';
      case 3:
        get(`/trace?seconds=1`);
        await wait(ms);
        return 'goes before its trace is there';
      default:
        send(`${'x'.repeat(1 + (pick % 5000))}\r\n\0\r\n\r\n`);
        await Promise.race([heard('close'), wait(2000)]);
        return 'talks nonsense';
    }
  } finally {
    socket.destroy();
  }
}

/** Returns the response's text, or null if the connection was refused or lost. */
function metrics(monitor: string): Promise<string | null> {
  return new Promise((resolve) => {
    const asked = request(`${monitor}metrics`, { agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece;
      });
      response.on('error', () => resolve(null));
      response.on('end', () =>
        resolve(
          response.statusCode === 200 && /^hotslot_ticks_total \d+$/m.test(text) ? 'metrics' : null,
        ),
      );
    });
    asked.on('error', () => resolve(null));
    asked.setTimeout(30_000, () => asked.destroy());
    asked.end();
  });
}
