/**
 * Tests processes that an MPI launcher started: halo exchanges between them, each kind of failure,
 * and misuse. It runs with both of Debian's MPI libraries.
 */
import { spawnSync } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { run } from '../cli/run-command.ts';
import { describeAll, itAll, itLong, setting } from '../rig/setting.ts';
import {
  type Launch,
  type Launched,
  launch,
  missingLaunch,
  mpich,
  needLaunch,
  openMpi,
  overTcp,
} from './launch.ts';

const program = 'test/ranks/program.js';
const play = (by: Launch, processes: number, ...scene: string[]) =>
  launch(by, processes, program, scene);

/**
 * Returns what the processes reported, sorted by rank. Fails if a report is missing or the launcher
 * returns an error.
 */
function toldBy({ code, told, stdout, stderr }: Launched, processes: number): Launched['told'] {
  const byRank = [...told].sort((a, b) => a.rank - b.rank);
  expect({ code, ranks: byRank.map(({ rank }) => rank) }, stdout + stderr).to.deep.equal({
    code: 0,
    ranks: [...Array(processes).keys()],
  });
  return byRank;
}

for (const by of [openMpi, mpich]) {
  /** Tests that are the same with every MPI. Only the longest setting runs them with both. */
  const itOnce = by === openMpi ? itAll : itLong;
  describeAll(`MPI processes of ${by.name}`, function (this: Mocha.Suite) {
    this.timeout(setting({ short: 120_000, all: 300_000 }));
    const why = missingLaunch(by);
    if (why !== null) {
      it.skip(`cannot be tried: ${why}`);
      return;
    }

    it('exchange halos with each other, and gather numbers by rank', async () => {
      const told = toldBy(await play(by, 2, 'exchange', '50'), 2);
      for (const { size, all, name } of told) {
        expect({ size, all }).to.deep.equal({
          size: 2,
          all: [
            [0, 7],
            [1, 7],
          ],
        });
        expect(name).to.match(
          by === mpich
            ? /^MPICH Version: \d+\.\d.* \(libmpich\.so\.12\)$/
            : /^Open MPI v\d.* \(libmpi\.so\.40\)$/,
        );
      }
    });

    it('run two exchanges at a time with ranks in threads', async () => {
      for (const { worked } of toldBy(await play(by, 2, 'threads', '50'), 2))
        expect(worked).to.deep.equal([50, 50]);
    });

    for (const failing of [0, 1])
      (failing === 0 ? itOnce : itAll)(
        `reject with the cause when rank ${failing} fails`,
        async () => {
          const told = toldBy(await play(by, 2, 'fail', String(failing)), 2);
          expect(told[failing]).to.deep.equal({ rank: failing, failed: true });
          expect(told[1 - failing]).to.deep.include({
            message: `rank ${failing} failed in exchange 3: no wind at ${failing}`,
            cause: `no wind at ${failing}`,
          });
        },
      );

    it('reject when another rank closes or its thread ends', async () => {
      const [left] = toldBy(await play(by, 2, 'close', '1'), 2);
      expect(left!.message).to.match(
        /^rank 1 closed before it sent what exchange 4 of rank 0 waits for/,
      );
      const [lost] = toldBy(await play(by, 2, 'lost', '1'), 2);
      expect(lost!.message).to.match(
        /^the thread of rank 1 ended before it sent what exchange 4 of rank 0 waits for/,
      );
      expect(lost!.code).to.equal('ERR_HOTSLOT_THREAD_LOST');
    });

    itOnce('reject and name the process that differs when their calls differ', async () => {
      for (const { message, code } of toldBy(await play(by, 2, 'mismatch', 'options'), 2)) {
        expect(message).to.match(
          /process 1 begins a halo exchange with other options than process 0/,
        );
        expect(code).to.equal('ERR_HOTSLOT_ARGUMENT');
      }
      for (const { message } of toldBy(await play(by, 2, 'mismatch', 'end'), 2))
        expect(message).to.match(
          /process 1 begins the end where process 0 begins a halo exchange; every process must do the same in the same order/,
        );
    });

    for (const how of ['fail', 'leave'])
      itOnce(
        `average and broadcast in a learner group, and name the rank that is to ${how}`,
        async () => {
          const all = toldBy(await play(by, 3, 'group', how), 3);
          const mean = Math.fround(
            (Math.fround(Math.sin(21)) +
              Math.fround(2 * Math.sin(21)) +
              Math.fround(3 * Math.sin(21))) /
              3,
          );
          for (const { bits, first, second, busy, rank, message, again } of all) {
            expect({ bits, first, second }).to.deep.equal({
              bits: all[0]!.bits,
              first: [0, 7],
              second: mean,
            });
            expect(busy).to.contain(
              `rank ${rank} is still in a learner group: close its LearnerGroup first`,
            );
            if (rank === 1) continue;
            expect(message).to.match(
              how === 'fail'
                ? /rank 1 of the learner group failed in exchange 21: no sea/
                : /rank 1 of the learner group left before/,
            );
            expect((again as { message: string }).message).to.contain('learner group');
          }
        },
      );

    for (const every of [1, 3])
      (every === 1 ? itAll : itOnce)(
        `end their runs together when learners average every ${every} ticks`,
        async () => {
          for (const processes of setting({ short: [], all: [every === 1 ? 3 : 2], long: [2, 3] }))
            for (const { rank, ended, equal } of toldBy(
              await play(by, processes, 'ends', String(every)),
              processes,
            )) {
              const by = (who: number, why: string) => (rank === who ? why : { rank: who, why });
              const [ticks, aborted, alone, last] = ended as unknown[];
              expect({ ticks, aborted, last }).to.deep.equal({
                ticks: by(1, 'ticks'),
                aborted: by(0, 'aborted'),
                last: 'ticks',
              });
              // The waiting ranks ended by their own signals, and the last rank by one of those
              // signals.
              if (rank < processes - 1) expect(alone).to.equal('aborted');
              else expect(alone).to.have.property('why', 'aborted');
              expect((equal as boolean[])[3]).to.equal(true);
            }
        },
      );

    itOnce(
      'reject and name the process that differs when learner groups have other parameter counts',
      async () => {
        for (const { message, code } of toldBy(await play(by, 2, 'group-mismatch'), 2)) {
          expect(message).to.match(
            /process 1 begins a learner group with other options than process 0/,
          );
          expect(code).to.equal('ERR_HOTSLOT_ARGUMENT');
        }
      },
    );

    itLong(
      'solve CartPole with 2 and 4 learners, with the results of one process',
      async function () {
        this.timeout(300_000);
        for (const learners of [2, 4]) {
          const given = ['--seed', '1', '--json'];
          const { code, stdout, stderr } = await launch(
            by,
            learners,
            'test/programs/learners/main.js',
            ['--mpi', ...given],
            {
              ms: 200_000,
            },
          );
          expect(code, stderr).to.equal(0);
          const alone = await run('test/programs/learners/main.js', [
            '--learners',
            String(learners),
            ...given,
          ]);
          const [there, here] = [stdout, alone.stdout].map(
            (text) => JSON.parse(text) as Record<string, unknown>,
          );
          for (const each of [there!, here!]) delete each.seconds;
          expect(there).to.deep.equal(here);
          expect(there).to.include({ learners, solved: true, equal: true });
        }
      },
    );

    it('reject invalid calls with their messages', async () => {
      for (const { rank, refused, again } of toldBy(await play(by, 2, 'misuse'), 2)) {
        const words = (refused as { message: string }[]).map(({ message }) => message);
        expect(words).to.deep.equal([
          '3 ranks cannot be divided evenly among 2 processes; start as many processes, or a divisor',
          `rank ${1 - rank} is of process ${1 - rank}; a process can take only its own ranks`,
          'MPI was opened in this process before',
          'allGather takes a Float64Array, got an array of 1',
          `rank ${rank} is still in a halo exchange: close its HaloUpdater first`,
          'this MpiProcess is closed',
          'this MpiProcess is closed',
        ]);
        expect(again).to.deep.include({ code: 'ERR_HOTSLOT_STATE_BUSY' });
      }
    });

    itAll('end the job when a process is killed', async () => {
      const { code, told } = await play(by, 2, 'killed', '1');
      expect({ code: code === 0, told }).to.deep.equal({ code: false, told: [] });
    });

    it('compute test/programs/halo-exchange with the bits of one process', async () => {
      const [mine, others] = by === openMpi ? ['sphere', 'plane'] : ['plane', 'sphere'];
      const modes = setting({ short: [], all: [mine], long: [mine, others] });
      for (const mode of modes) {
        const size = mode === 'plane' ? 4 : 6;
        const given = ['--mpi', '--mode', mode, '--size', '8', '--steps', '20', '--json'];
        const processes = setting({ short: 2, all: size / 2, long: size });
        const { code, stdout, stderr } = await launch(
          by,
          processes,
          'test/programs/halo-exchange/main.js',
          given,
        );
        expect(code, stderr).to.equal(0);
        expect(JSON.parse(stdout) as object).to.deep.include({ size: 8, steps: 20, equal: true });
      }
    });

    itOnce(
      'print the valid process counts when halo-exchange is started with 4 processes',
      async () => {
        const given = ['--mpi', '--mode', 'sphere', '--size', '8'];
        const { code, stderr } = await launch(by, 4, 'test/programs/halo-exchange/main.js', given);
        expect(code).not.to.equal(0);
        expect(stderr).to.match(
          /halo-exchange: the sphere has 6 parts, .* among 4 processes: start 1, 2, 3 or 6/,
        );
        expect(stderr).not.to.include('    at ');
      },
    );

    itOnce('reject on all other ranks when one of four ranks fails', async () => {
      for (const failing of setting({ short: [], all: [3], long: [0, 1, 2, 3] })) {
        const told = toldBy(await play(by, 4, 'fail', String(failing)), 4);
        const words = told.filter(({ rank }) => rank !== failing).map(({ message }) => message);
        expect(words).to.deep.equal(
          Array(3).fill(`rank ${failing} failed in exchange 3: no wind at ${failing}`),
        );
      }
    });

    const starts = setting({ short: 0, all: 0, long: 200 });
    itLong(`start and end ${starts} times with exit code 0`, async () => {
      for (let start = 0; start < starts; start++) toldBy(await play(by, 2, 'threads', '20'), 2);
    });

    itLong('end the job within 20 s when a rank is killed at any moment', async () => {
      for (let round = 0; round < 20; round++) {
        const begin = performance.now();
        const { code } = await play(by, 2, 'killed', String(round % 2));
        expect(code).not.to.equal(0);
        expect(performance.now() - begin).to.be.below(20_000);
      }
    });
  });
}

describeAll('MPI launchers', function () {
  // Longer than the limit of `launch()`, so that a failure shows what the processes printed.
  this.timeout(setting({ short: 120_000, all: 300_000 }));

  it('a process without a launcher reports how to start it', async () => {
    const { lines } = await run(program, ['exchange', '1']);
    expect(JSON.parse(lines[0]!) as object).to.deep.include({ code: 'ERR_HOTSLOT_UNAVAILABLE' });
    expect((JSON.parse(lines[0]!) as { message: string }).message).to.match(
      /^no MPI launcher started this process .*: start it as one of several processes, such as: mpirun -n 2 node main\.mjs$/,
    );
  });

  it('processes report the library of another MPI, and a missing library', async function () {
    needLaunch(this, openMpi, mpich);
    const other = { more: { HOTSLOT_MPI: 'libmpich.so.12' } };
    for (const { message } of (await launch(openMpi, 2, program, ['exchange', '1'], other)).told)
      expect(message).to.match(
        /^Open MPI's mpirun started 2 processes, but MPICH .* counts 1: it is another MPI's library; name the launcher's own by HOTSLOT_MPI$/,
      );
    const none = { more: { HOTSLOT_MPI: 'libnothing.so' } };
    for (const { message } of (await launch(mpich, 2, program, ['exchange', '1'], none)).told)
      expect(message).to.match(
        /^MPI failed in this process: libnothing\.so: cannot open shared object file/,
      );
  });

  it('UCX hooks no memory functions unless UCX_MEM_MMAP_HOOK_MODE requests it', async function () {
    needLaunch(this, mpich);
    const hooked = async (more: NodeJS.ProcessEnv) => {
      const given = { more: { UCX_MEM_LOG_LEVEL: 'debug', UCX_LOG_LEVEL: 'info', ...more } };
      const { stdout, stderr } = await launch(mpich, 2, program, ['exchange', '5'], given);
      return /installing bistro hook for munmap/.test(stdout + stderr);
    };
    expect(await hooked({})).to.equal(false);
    // If this MPICH does not use UCX, the variable has no effect.
    if (/ch4:ucx/.test(spawnSync('mpichversion', { encoding: 'utf8' }).stdout ?? ''))
      expect(await hooked({ UCX_MEM_MMAP_HOOK_MODE: 'bistro' })).to.equal(true);
  });

  it('processes of two versions of Hotslot report the difference', async function () {
    needLaunch(this, mpich);
    const tree = new URL('../../', import.meta.url);
    const folder = await mkdtemp(join(tmpdir(), 'hotslot-version-'));
    try {
      const last = pathToFileURL(`${folder}/dist/`);
      await cp(tree, last, { recursive: true, filter: (from) => !from.endsWith('.map') });
      for (const name of ['build', 'node_modules', 'package.json'])
        await symlink(fileURLToPath(new URL(`../${name}`, tree)), join(folder, name));
      const agreement = new URL('src/engine/group/agreement.js', last);
      const text = await readFile(agreement, 'utf8');
      expect(text).to.match(/const PROTOCOL = \d+;/);
      await writeFile(agreement, text.replace(/(const PROTOCOL = \d+);/, '$1 + 1;'));
      for (const { message, code } of toldBy(
        await launch(mpich, 2, program, ['mismatch', 'options'], { last }),
        2,
      )) {
        expect(message).to.contain(
          'process 1 runs another version of Hotslot than process 0; install one version everywhere',
        );
        expect(code).to.equal('ERR_HOTSLOT_ARGUMENT');
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('ranks in threads exchange over TCP', async function () {
    needLaunch(this, openMpi);
    toldBy(await play(overTcp, 2, 'threads', setting({ short: '20', all: '50', long: '500' })), 2);
  });
});
