/**
 * Tests the number of bytes that the learner reports as sent and not yet taken, while its limiter
 * holds the rows back.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { CollectorHost, RemoteCollectors } from '../../src/entries/remote.ts';
import { RateLimiter } from '../../src/store/rate-limiter.ts';
import { ReplayBuffer } from '../../src/store/rows/replay-buffer.ts';
import { itAll } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { needServer, startServer } from './server.ts';

/** The collector makes 400 values in total. */
const MODULE = `let left = 400;
export default () => ({
  collect: () => (left-- > 0 ? { number: Float64Array.of(left) } : new Promise((resolve) => setTimeout(resolve, 20, null))),
});
`;

describe('RemoteCollectors.statistics().streamBytes', () => {
  itAll('counts bytes that hosts have sent and the learner has not yet taken', async function () {
    needServer(this);
    const server = await startServer();
    const folder = mkdtempSync(join(tmpdir(), 'hotslot-under-way-'));
    const entry = join(folder, 'collector.mjs');
    writeFileSync(entry, MODULE);
    try {
      const limiter = RateLimiter.create({
        samplesPerInsert: 1,
        minSize: 1,
        errorBuffer: 100,
        gateAdd: true,
      });
      const fields = { number: { dtype: 'float64', shape: [] } } as const;
      const buffer = ReplayBuffer.create({ capacity: 1000, fields, limiter });
      const given = { url: server.url, run: 'under-way' };
      await using remote = await RemoteCollectors.open({ ...given, buffer: buffer as never });
      await using host = await CollectorHost.open({ ...given, entry: pathToFileURL(entry) });
      await until(
        'the learner knows of bytes under way',
        () => remote.statistics().streamBytes >= 300 * 8,
      );
      expect(host.statistics().acknowledged).to.be.below(400);
      limiter.countSamples(300);
      await until(
        'the learner knows that there are none',
        () => remote.statistics().streamBytes === 0,
      );
      expect(buffer.size).to.equal(400);
    } finally {
      await server.stop();
      rmSync(folder, { recursive: true });
    }
  });
});
