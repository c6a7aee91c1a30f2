/**
 * Tests that forged objects from another thread are checked before native code uses them. They are
 * rejected or do no harm.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

describe('forged shared objects and words', () => {
  it('throw or have no effect outside their memory, in at least 40 cases', () => {
    const program = fileURLToPath(new URL('./forged.js', import.meta.url));
    const { stdout, stderr, status, signal } = spawnSync(process.execPath, [program], {
      encoding: 'utf8',
      timeout: 100_000,
      killSignal: 'SIGKILL',
    });
    const said = stdout.trim().split('\n');
    expect({ status, signal }, `in the case '${said.at(-1)}':\n${stderr}`).to.deep.equal({
      status: 0,
      signal: null,
    });
    expect(said.at(-1)).to.equal(`${said.length - 1} cases`);
    expect(said.length).to.be.above(40);
  });
});
