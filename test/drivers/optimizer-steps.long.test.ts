/** Compares the steps of optimizers with single launches, on the software drivers of all families. */
import { expect } from 'chai';
import { itAll } from '../rig/setting.ts';
import { testFile } from '../rig/test-file.ts';
import { modes, need, runTests } from './software.ts';

describe('steps of optimizers on software drivers', function () {
  this.timeout(300_000);
  for (const mode of [modes.cuda13, modes.hip, modes.ze])
    itAll(`${mode.name}: they have the bits of single launches`, async function () {
      need(this, mode);
      expect(await runTests(mode, [testFile('learner/optimizer-steps')])).to.be.at.least(40);
    });
});
