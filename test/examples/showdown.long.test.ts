/**
 * Tests `npm run showdown`: battles if the simulator is installed, and otherwise the message that
 * says what to install.
 */
import { createRequire } from 'node:module';
import { expect } from 'chai';
import { evaluate } from '../../src/entries/collect.ts';
import { run } from '../cli/run-command.ts';
import { itAll } from '../rig/setting.ts';

const { resolve } = createRequire(import.meta.url);
const installed = (() => {
  try {
    return resolve('@pkmn/sim') !== '';
  } catch {
    return false;
  }
})();
/**
 * Defines a test that runs only if the simulator is installed, or only if it is not. The simulator
 * is not a dependency, because it has 50 MB.
 */
const itWhere = (there: boolean, title: string, run: () => Promise<void>): void => {
  if (there === installed) itAll(title, run);
  else it(`${title} (if @pkmn/sim is ${there ? '' : 'not '}installed)`);
};

describe('npm run showdown', () => {
  itWhere(false, 'names the package to install', async () => {
    const { code, stderr } = await run('examples/showdown/main.js', []);
    expect([code, stderr]).to.deep.equal([
      1,
      'showdown: the battles need the package @pkmn/sim: npm install --no-save @pkmn/sim@0.10.11\n',
    ]);
  });

  itAll('rejects an invalid --goal with exit code 2', async () => {
    const { code, stderr } = await run('examples/showdown/main.js', ['--goal', 'all']);
    expect([code, stderr]).to.deep.equal([
      2,
      "showdown: --goal must be a number above 0, got 'all'; see --help\n",
    ]);
  });

  itWhere(
    true,
    'plays battles with random choices, and equal seeds give equal battles',
    async () => {
      const { default: Showdown } = await import('../../examples/showdown/battle.ts');
      const { randomLegal } = await import('../../examples/showdown/training.ts');
      const all: Float64Array[] = [];
      for (let round = 0; round < 2; round++) {
        const policy = randomLegal(3);
        const environment = new Showdown();
        const { returns, lengths } = await evaluate({
          environments: [environment],
          policy,
          episodes: 100,
          seed: 5,
        });
        all.push(returns, lengths);
        environment.close();
        expect(lengths.every((length) => length >= 3 && length < 200)).to.equal(true);
      }
      expect(all[2]).to.deep.equal(all[0]);
      expect(all[3]).to.deep.equal(all[1]);
    },
  );

  itWhere(true, 'raises the share of won battles by more than 0.2', async () => {
    const { code, lines } = await run('examples/showdown/main.js', [
      '--json',
      '--device',
      'host:0',
      '--goal',
      '0.5',
    ]);
    const { won, before } = JSON.parse(lines.at(-1)!);
    expect([code, won > before + 0.2]).to.deep.equal([0, true]);
  });
});
