/**
 * Tests that a training continues in another process to the bits of an unbroken training. SIGKILL ends the
 * first process in the middle of a cycle of phases, right after a save.
 */
import { expect } from 'chai';
import { withFolder } from '../../checkpoint/killed.ts';
import { run } from '../../cli/run-command.ts';
import { itAll } from '../../rig/setting.ts';
import { ON_HOST } from '../../rig/tested-device.ts';
import { countersAfter, type Trained, trained } from './cycle.ts';

const [SAVED, UPDATES] = [3, 8];
const PROGRAM = 'test/learner/traced/killed-process.js';

/** By mode: how the killed process trains, how the next one does, and whether a short run has the test. */
const cases = [
  ['graph', 'eager', true],
  ['graph', 'graph', false],
  ['eager', 'graph', false],
  ['eager', 'eager', false],
] as const;

describe('a training whose process is killed after a save', () => {
  for (const [saved, resumed, short] of cases)
    (short ? it : itAll)(
      `continues to the bits of an unbroken run: saved by ${saved}, resumed by ${resumed}`,
      async function () {
        // Other devices cannot decide in a graph of one update whether a phase runs.
        if (!ON_HOST && [saved, resumed].includes('graph' as never)) return this.skip();
        await withFolder(async (folder) => {
          const killed = await run(PROGRAM, [folder, saved, String(SAVED), 'killed']);
          expect([killed.stdout, killed.stderr, killed.code === 0]).to.deep.equal(['', '', false]);
          const { stdout, stderr } = await run(PROGRAM, [folder, resumed, String(UPDATES)]);
          expect(stderr).to.equal('');
          const { loaded, state, reports } = JSON.parse(stdout) as Trained & {
            loaded: Trained['state'];
          };
          const before = await trained(saved, SAVED);
          expect(before.state).to.deep.include(countersAfter(SAVED));
          expect(loaded).to.deep.equal(before.state);
          const unbroken = await trained(saved, UPDATES);
          expect(state).to.deep.include(countersAfter(UPDATES));
          expect(state.numbers).to.deep.equal(unbroken.state.numbers);
          expect(state).to.deep.equal(unbroken.state);
          expect(reports).to.deep.equal(unbroken.reports.slice(SAVED));
        });
      },
    );
});
