/**
 * A process that runs large jobs of three addons, then starts and ends a thread. Prints a JSON
 * line: the results of coresNow(), and the number of pool threads after each job.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { coresNow } from '../../src/base/cores.ts';
import { openDevice, ReplayBuffer, ReplayPipeline } from '../../src/index.ts';
import { launchAnything } from '../rig/launch.ts';
import { TestThread } from '../rig/test-thread.ts';

function poolThreads(): number {
  const names = readdirSync('/proc/self/task').map((task) => {
    try {
      return readFileSync(`/proc/self/task/${task}/comm`, 'utf8').trim();
    } catch {
      return ''; // the thread has ended
    }
  });
  return names.filter((name) => name === 'hotslot-cores').length;
}

const row = 1024;
const rows = 4096; // 16 MiB: enough work for all helpers
const buffer = ReplayBuffer.create({ capacity: rows, fields: { x: { shape: [row] } } });
buffer.add({ x: new Float32Array(rows * row) });
const first = coresNow();
const behind: Record<string, number> = {};

buffer.sample({ seed: 1, count: rows });
behind.rows = poolThreads();

await using device = openDevice('host:0');
const size = 1024;
const [a, b, c] = [0, 1, 2].map(() =>
  device.allocate({ shape: [size, size] }).write(new Float32Array(size * size)),
);
const stream = device.createStream();
launchAnything(stream, 'gemm', {
  tensors: [c, a, b],
  wholes: [0, 0, size, size, size, size, size, size],
  reals: [1, 0],
});
await stream.synchronize();
behind.device = poolThreads();

await using pipeline = await ReplayPipeline.open({
  buffer,
  sampleCount: rows,
  device: 'host:0',
  placement: 'inline',
});
await pipeline.startPrepare(0, rows);
for (let n = 0; !pipeline.batchReady(0, rows); n++) {
  pipeline.step();
  if (n > 100_000) throw new Error('no batch was ready');
}
behind.pack = poolThreads();

const threads = [pipeline.inspect().cores.threads];
const thread = new TestThread(new URL('./cores-worker.js', import.meta.url), null);
threads.push(await thread.next<number>());
await thread.terminate();
await thread.ended;
threads.push(coresNow().threads);
console.log(JSON.stringify({ first, behind, threads }));
process.exit(0);
