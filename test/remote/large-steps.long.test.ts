/**
 * Tests steps so large that a message holds only one. A step that ends its episode is sent together
 * with its final observation.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { CollectorHost, RemoteCollectors } from '../../src/entries/remote.ts';
import { TrajectoryBuffer } from '../../src/index.ts';
import { itAll } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { needServer, startServer } from './server.ts';

const BYTES = 5 * 2 ** 20;
/** Makes four steps. Every other one ends its episode. */
const MODULE = `let n = 0;
const image = (of) => new Uint8Array(${BYTES}).fill(of);
export default () => ({
  collect: () =>
    n < 4
      ? { obs: image(n), finalObs: image(100 + n), rewards: Float32Array.of(n), terminated: Uint8Array.of(n++ % 2), truncated: Uint8Array.of(0) }
      : new Promise((resolve) => setTimeout(resolve, 20, null)),
});
`;

describe('remote steps of 5 MiB', () => {
  itAll('arrive at the learner without a refusal or a loss', async function () {
    needServer(this);
    const server = await startServer();
    const folder = mkdtempSync(join(tmpdir(), 'hotslot-large-'));
    const entry = join(folder, 'collector.mjs');
    writeFileSync(entry, MODULE);
    try {
      const fields = { obs: { shape: [BYTES], dtype: 'uint8', observation: true } } as const;
      const buffer = TrajectoryBuffer.create({ capacity: 10, lanes: 1, fields });
      const given = { url: server.url, run: 'large' };
      await using remote = await RemoteCollectors.open({ ...given, buffer: buffer as never });
      await using host = await CollectorHost.open({ ...given, entry: pathToFileURL(entry) });
      await until('all of it has come', () => host.statistics().acknowledged === 6);
      expect(buffer.size).to.be.at.least(4);
      expect(remote.statistics()).to.include({ refused: 0, lost: 0 });
    } finally {
      await server.stop();
      rmSync(folder, { recursive: true });
    }
  });
});
