/** Tests millions of ticks in one process. Each must be applied once, and memory must not grow. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { residentEnvironment, residentFlags } from '../rig/resident.ts';
import { itAll, setting } from '../rig/setting.ts';

/**
 * Number of rounds, and of ticks in each. A float32 counts the updates of a round, which is exact up
 * to 2²⁴.
 */
const [ROUNDS, TICKS] = setting({ short: [0, 0], all: [8, 8_000], long: [10, 10_000_000] });
/**
 * Allowed growth, as a fraction of the largest memory after a round of the first half. Short rounds
 * allow more, because a process grows at first.
 */
const GROWS = setting({ short: 0, all: 0.05, long: 0.01 });

describe('a long-running ReplayPipeline', () => {
  itAll(
    `applies each of ${ROUNDS} × ${TICKS.toLocaleString('en-US')} ticks once, and memory grows by less than ${GROWS * 100} %`,
    function () {
      this.timeout(7_200_000);
      const program = fileURLToPath(new URL('./long-run.js', import.meta.url));
      const args = [...residentFlags, program, String(ROUNDS), String(TICKS)];
      const { stdout, stderr, status } = spawnSync(process.execPath, args, {
        env: residentEnvironment(),
        encoding: 'utf8',
        timeout: 7_000_000,
        killSignal: 'SIGKILL',
      });
      expect(status, stderr).to.equal(0);
      const rounds = stdout
        .trim()
        .split('\n')
        .map(
          (line) =>
            JSON.parse(line) as { ticks: number; updates: number; finished: number; bytes: number },
        );
      expect(rounds.length).to.equal(ROUNDS);
      for (const [i, { ticks, updates, finished }] of rounds.entries())
        expect([ticks, updates, finished]).to.deep.equal([TICKS, TICKS, TICKS * (i + 1)]);
      const bytes = rounds.map((round) => round.bytes);
      this.test!.title += `: ${bytes.map((each) => (each / 2 ** 20).toFixed(1)).join(' ')} MiB`;
      const [first, second] = [bytes.slice(0, ROUNDS / 2), bytes.slice(ROUNDS / 2)].map((half) =>
        Math.max(...half),
      );
      expect(second! / first!).to.be.below(1 + GROWS);
    },
  );
});
