/**
 * Tests the public API with random arguments on software drivers of the GPU families. A driver that
 * is called wrongly ends the process, and the test names the call.
 */
import { expect } from 'chai';
import { modes, need } from '../drivers/software.ts';
import { itAll, setting } from '../rig/setting.ts';
import { fuzz, inWords, type Plan, unordered } from './runner.ts';

describe('fuzzing on software drivers', function () {
  this.timeout(3_600_000);
  const calls = setting({ short: 0, all: 400, long: 20_000 });
  for (const name of ['cuda12', 'hip', 'zeBare', 'zeGraph'] as const)
    itAll(modes[name].name, async function () {
      need(this, modes[name]);
      const plan: Plan = {
        kind: 'door',
        device: modes[name].device,
        seed: 2,
        calls,
        env: unordered(modes[name]),
      };
      const report = await fuzz(plan);
      expect(inWords(plan, report)).to.equal('');
      expect(report.counts.answers).to.be.above(calls * 0.3);
    });
});
