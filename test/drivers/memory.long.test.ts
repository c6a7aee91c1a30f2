/**
 * Tests memory rules that all GPU families share: staging memory, exhausted memory, and memory that
 * a driver refuses to free.
 */
import { expect } from 'chai';
import { describeAll, SETTING } from '../rig/setting.ts';
import { libraryOf, type Mode, modes, need, run } from './software.ts';

async function probe(mode: Mode, args: readonly string[], told: Record<string, string> = {}) {
  const { stdout, stderr, status } = await run(
    mode,
    ['--no-warnings', 'dist/test/drivers/memory-probe.js', ...args],
    told,
  );
  expect(status, stderr).to.equal(0);
  return JSON.parse(stdout);
}

const { cuda13, hip, ze14, ze } = modes;
const MIB = 2 ** 20;

describeAll('memory of GPU families', function () {
  this.timeout(300_000);

  // Only the longest runs have all families. CUDA's code also makes HIP's calls, and Level Zero's
  // memory has not changed since 1.4.
  const families = [
    [cuda13, 'cuMemFree', { HOTSLOT_SOFTWARE_CUDA: `13.0,memory=${8 * MIB}` }],
    [ze, 'zeMemFree', { HOTSLOT_SOFTWARE_ZE: 'modern,memory=8' }],
    [hip, 'hipFree', { HOTSLOT_SOFTWARE_HIP: `memory=${8 * MIB}` }],
    [ze14, 'zeMemFree', { HOTSLOT_SOFTWARE_ZE: 'spec=1.4,memory=8' }],
  ] as const;
  for (const [mode, free, limit] of SETTING === 'long' ? families : families.slice(0, 2)) {
    describe(mode.name, () => {
      before(function () {
        need(this, mode);
        libraryOf(mode);
      });

      it('write() takes at most 2 MiB of host memory beyond its data from the driver', async () => {
        for (const excess of await probe(mode, ['staging']))
          expect(excess).to.be.within(0, 2 * MIB);
      });

      it('allocate() frees cached memory before it waits for running work', async () => {
        const { held, records } = await probe(mode, ['reclaimed'], limit);
        expect(held, 'the work still runs').to.equal(true);
        expect(records).to.be.below(20);
      });

      it('close() retries a free that the driver refuses, warns once, and frees later', async () => {
        expect(await probe(mode, ['refused', free])).to.deep.equal({
          once: { left: 0, told: 0 },
          forever: { left: 1, told: 1 },
          after: 0,
        });
      });
    });
  }
});
