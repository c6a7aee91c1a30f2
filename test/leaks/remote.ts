/**
 * Operations with remote collectors: hosts that come and go while the learner stays, and messages
 * of a host that stays.
 */

import { CollectorHost, RemoteCollectors } from '../../src/entries/remote.ts';
import { ReplayBuffer } from '../../src/index.ts';
import { rowFields } from '../remote/run-collector.ts';
import { leash, newRun, untilAsked } from '../remote/runs.ts';
import { startServer } from '../remote/server.ts';
import type { Opened } from './operations.ts';

const ROWS = 200;

async function learner() {
  const server = await startServer();
  const { url } = server;
  const run = newRun();
  const buffer = ReplayBuffer.create({ capacity: 1000, fields: rowFields });
  const remote = await RemoteCollectors.open({ url, run, buffer });
  const { entry, to } = leash();
  return {
    to,
    arrived: (rows: number) => untilAsked('the rows are there', () => buffer.ptr >= rows),
    host: (name: string) => CollectorHost.open({ url, run, entry, name, workers: 1, flushMs: 1 }),
    async close() {
      await remote.close();
      await server.stop();
    },
  };
}

export async function comeAndGo(): Promise<Opened> {
  const { to, host, arrived, close } = await learner();
  to(ROWS);
  return {
    async once(i) {
      const one = await host(`host ${i % 3}`);
      await arrived((i + 1) * ROWS);
      await one.close();
    },
    close,
  };
}

export async function messages(): Promise<Opened> {
  const { to, host, arrived, close } = await learner();
  const one = await host('ann');
  return {
    once(i) {
      to((i + 1) * ROWS);
      return arrived((i + 1) * ROWS);
    },
    async close() {
      await one.close();
      await close();
    },
  };
}
