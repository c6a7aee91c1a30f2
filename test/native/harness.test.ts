/** The native code without JavaScript, under the sanitizers: they see what no test of results can. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build, type Harness, missing, runHarness, type Sanitizer } from './harnesses.ts';

// Kernels have no threads of their own.
const plan: [Sanitizer, Harness[]][] = [
  ['thread', ['core', 'rows']],
  ['address,undefined', ['core', 'rows', 'kernels']],
];

describe('native harnesses', function () {
  this.timeout(120_000);
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-harness-'));
  after(() => rmSync(folder, { recursive: true, force: true }));

  for (const [sanitizer, harnesses] of plan) {
    describe(`under the ${sanitizer} sanitizer`, () => {
      const place = join(folder, sanitizer.replace(',', '-'));
      before(async function () {
        const why = missing(sanitizer);
        if (why === null) return build(place, sanitizer, harnesses);
        console.log(`      skipped: ${why}`);
        return this.skip();
      });
      for (const harness of harnesses) it(`${harness}: nothing is found`, () => runHarness(place, harness));
    });
  }
});
