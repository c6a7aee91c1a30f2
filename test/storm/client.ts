/** Who asks a storm's monitor: politely, or as no page would. */
import { request } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import type { WorldProcess } from './world-process.ts';

/** Null where nobody was there to answer: a process that was killed, or closes. */
export async function ask(world: WorldProcess, pick: number, ms: number): Promise<string | null> {
  const { monitor } = world;
  if (monitor === null) return null;
  const { port } = new URL(monitor);
  const socket = connect(Number(port), '127.0.0.1');
  socket.on('error', () => {});
  // Of one that was killed, or is closing, a connection may be reset at any time.
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
        // Takes nothing of what it is sent.
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

/** What was answered; null where the connection was refused or lost. */
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
