/**
 * A process with a CollectorHost. The parent process sends it the pace at which its collector makes
 * rows.
 */
import { BroadcastChannel } from 'node:worker_threads';
import { CollectorHost } from '../src/entries/remote.ts';
import { PACE } from './remote-collector.ts';

export interface HostTask {
  readonly url: string;
  readonly run: string;
  readonly ca?: string;
  readonly flushBytes: number;
}

const { url, run, ca, flushBytes } = JSON.parse(process.argv[2]!) as HostTask;
const entry = new URL('./remote-collector.js', import.meta.url);
const host = await CollectorHost.open({ url, run, entry, flushBytes, ...(ca && { ca }) });
const paces = new BroadcastChannel(PACE);
process.on('message', (pace: number | 'Infinity' | 'end') => {
  if (pace === 'end') {
    paces.close();
    void host.close().then(() => process.disconnect());
  } else paces.postMessage(Number(pace));
});
process.once('disconnect', () => process.exit());
process.send!('ready');
await host.done;
