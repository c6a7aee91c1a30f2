/**
 * Tests how many cores share large jobs: the variable that limits them, how the library reports
 * them, and that a process has one pool.
 */
import { expect } from 'chai';
import type { CoresNow } from '../../src/base/cores.ts';
import { run } from '../cli/run-command.ts';
import { itAll } from '../rig/setting.ts';

const asked = (HOTSLOT_CORES: string) =>
  run('test/wait/cores-process.js', [], { env: { HOTSLOT_CORES } });

describe('HOTSLOT_CORES and coresNow()', function () {
  this.timeout(60_000);

  for (const wrong of ['0', '-1', '1e9', '2.5', 'all'])
    (wrong === '0' ? it : itAll)(
      `loading the library throws a RangeError with the value if HOTSLOT_CORES=${wrong}`,
      async () => {
        const { code, stderr } = await run('src/index.js', [], { env: { HOTSLOT_CORES: wrong } });
        expect(code).to.equal(1);
        expect(stderr).to.match(
          /RangeError.*: HOTSLOT_CORES is .* a whole number of at least 1, got '/,
        );
        expect(stderr).to.include(`got '${wrong}'`);
      },
    );

  itAll(
    'hotslot doctor exits with 1 and one line on stderr if HOTSLOT_CORES is invalid',
    async () => {
      const { code, stderr } = await run('src/cli/main.js', ['doctor'], {
        env: { HOTSLOT_CORES: 'none' },
      });
      expect([code, stderr.trim().split('\n').length]).to.deep.equal([1, 1]);
      expect(stderr).to.match(/^hotslot: HOTSLOT_CORES is .*, got 'none'$/m);
    },
  );

  itAll(
    'values above the number of cores use all cores, and 1 uses one core without helpers',
    async () => {
      const found = async (HOTSLOT_CORES: string) => {
        const { lines } = await run('src/cli/main.js', ['doctor', '--json'], {
          env: { HOTSLOT_CORES },
        });
        return lines
          .map((line) => JSON.parse(line))
          .find(({ check }) => check === 'cores') as CoresNow & {
          text: string;
        };
      };
      const [all, more, one] = [await found(''), await found('123456789012'), await found('1')];
      expect(more.cores).to.equal(all.cores);
      expect(more.helpers).to.equal(all.helpers);
      expect(one).to.include({ cores: 1, helpers: 0 });
      expect(one.text).to.equal(
        'the process may use 1 core (HOTSLOT_CORES=1): one thread does a large job',
      );
    },
  );

  itAll(
    'gathers, products and packs share one pool, and ended threads are no longer counted',
    async () => {
      for (const cores of ['1', '2']) {
        const { stdout, stderr } = await asked(cores);
        expect(stderr).to.equal('');
        const { first, behind, threads } = JSON.parse(stdout);
        const helpers = Math.min(Number(cores), first.cores) - 1;
        expect(first).to.deep.equal({ cores: helpers + 1, threads: 1, helpers });
        expect(behind).to.deep.equal({ rows: helpers, device: helpers, pack: helpers });
        // `before` is above 1, because the CPU device has started threads.
        const [before] = threads;
        expect(before).to.be.greaterThan(1);
        expect(threads).to.deep.equal([before, before + 1, before]);
      }
    },
  );
});
