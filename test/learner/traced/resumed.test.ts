/** Tests that a captured traced learner with a delayed phase resumes exactly after a kill. */
import { expect } from 'chai';
import { withFolder } from '../../checkpoint/killed.ts';
import { run } from '../../cli/run-command.ts';
import { ON_HOST } from '../../rig/tested-device.ts';
import { trained } from './resumed.ts';

describe('a traced learner that is killed and resumed', () => {
  it('has the bits of a run that was not killed, also between two runs of a delayed phase', async function () {
    if (!ON_HOST) return this.skip();
    await withFolder(async (folder) => {
      const program = 'test/learner/traced/resumed-process.js';
      // Updates 0 to 2 are saved. Update 3 is lost, and the actor steps in update 4.
      const killed = await run(program, [folder, '9', '3']);
      expect([killed.stdout, killed.stderr, killed.code === 0]).to.deep.equal(['', '', false]);
      const resumed = await run(program, [folder, '9']);
      expect(resumed.stderr).to.equal('');
      expect(resumed.stdout.trim()).to.equal(await trained(9));
    });
  });
});
