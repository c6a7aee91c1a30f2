/**
 * Tests one device family on its software driver: the device contract, the modules above devices,
 * and a training run. A training run with failing driver calls is in failing-calls.ts. Each mode
 * runs in its own process. The families-*.long.test.ts files choose the tests of each mode.
 */
import { expect } from 'chai';
import { Example, killedAndWhole, withFolder } from '../checkpoint/killed.ts';
import { itAll, itLong, type itShort, SETTING, setting } from '../rig/setting.ts';
import { testFile } from '../rig/test-file.ts';
import { environmentOf, libraryOf, type Mode, need, run, runTests } from './software.ts';

const folders = (...names: string[]) => names.map((name) => testFile(`${name}/*`));
/**
 * Tests of modules above devices: the tests that use most features of a device (`closest`), and all
 * of them (`above`).
 */
const closest = folders('transfer', 'graph', 'memory');
const above = [
  ...folders('actors', 'pipeline', 'learner', 'learner/traced', 'expressions', 'trace', 'linop'),
  ...folders('halo', 'gpu'),
  testFile('ranks/group'),
  ...closest,
];
/** The smaller selection also has the halo tests that overlap. */
const inPart = [...closest, testFile('halo/overlap')];
/**
 * Mocha options that leave out tests of the CPU device and tests that use no device. These run
 * elsewhere.
 */
const elsewhere = [
  '--fgrep',
  ' on cpu',
  '--invert',
  ...[
    'memory/compilation',
    'halo/topology',
    'expressions/rules',
    'expressions/errors',
    'expressions/mutations',
    'learner/traced/description',
    'learner/masked-mutations',
  ].flatMap((name) => ['--ignore', testFile(name)]),
];

const hostRuns = new Map<string, Promise<object>>();
/**
 * Runs 100 ticks on the CPU device without interruption, and caches the result for each kind of
 * replay.
 */
function hostRun(replay: string): Promise<object> {
  const made =
    hostRuns.get(replay) ??
    new Example(['--device', 'host:0', '--replay', replay])
      .run('--ticks', '100')
      .then(({ weights, steps, episodes }) => ({ ticks: 100, weights, steps, episodes }));
  hostRuns.set(replay, made);
  return made;
}

interface Place {
  /** whether this is the newest mode of its family, which shorter runs test */
  newest?: boolean;
  /**
   * sections of the contract that `test:all` runs in this mode, because their driver calls differ
   * from those of the newest mode
   */
  differs?: readonly string[];
}

/**
 * Declares the tests of one mode. Only the longest runs test a mode that is neither `newest` nor
 * has `differs`.
 */
export function describeMode(
  mode: Mode,
  { newest = false, differs = [] }: Place = {},
  more: (this: Mocha.Suite) => void = () => {},
): void {
  const once = newest ? itAll : itLong;
  const keeps = differs.length > 0 ? itAll : once;
  const part = SETTING === 'all' && differs.length > 0;
  describe(`${mode.name} (software driver)`, function () {
    this.timeout(setting({ short: 600_000, all: 600_000, long: 1_200_000 }));
    before(function () {
      need(this, mode);
      libraryOf(mode);
    });

    keeps(
      `keeps the device contract${part ? `: ${differs.join(', ')} (npm run test:long: all of it)` : ''}`,
      async () => {
        // The grep leaves out the CPU device, which keeps the contract without a driver.
        const sections = part ? ` (${differs.join('|')}) ` : '';
        const own = ['--grep', `device contract on ${mode.device}${sections}`];
        const least = part ? 6 * differs.length : 100;
        expect(await runTests(mode, [testFile('device/contract'), ...own])).to.be.at.least(least);
      },
    );

    // In `all` only the newest CUDA mode trains until CartPole is solved. test/cli/cartpole does
    // the same on the CPU device. The longest runs do it in every mode.
    const solved = setting({
      short: false,
      all: newest && mode.device.startsWith('cuda'),
      long: true,
    });
    once(
      solved
        ? 'trains CartPole until it is solved'
        : 'trains CartPole (longer settings: until it is solved)',
      async () => {
        const script = 'dist/examples/cartpole-dqn/main.js';
        const most = solved ? [] : ['--ticks', '300'];
        const { stdout, stderr, status } = await run(mode, [
          script,
          '--device',
          mode.device,
          '--json',
          ...most,
        ]);
        expect(status, stderr).to.equal(solved ? 0 : 1);
        const summary = JSON.parse(stdout.trim().split('\n').at(-1) as string) as Record<
          string,
          unknown
        >;
        expect(summary).to.include({
          solved,
          device: mode.device,
          ...(solved ? {} : { ticks: 300 }),
        });
      },
    );

    (newest && mode.driver === 'cuda' ? itAll : itLong)(
      'resumes killed runs and runs of the CPU device bit for bit, also with priorities',
      async () => {
        const env = environmentOf(mode);
        for (const replay of setting({
          short: [],
          all: ['prioritized'],
          long: ['uniform', 'prioritized'],
        })) {
          const example = new Example(['--device', mode.device, '--replay', replay], env);
          const [killed, whole] = await killedAndWhole(example, 1);
          expect([killed.ticks, killed.weights]).to.deep.equal(
            [whole.ticks, whole.weights],
            replay,
          );
          // The CPU device and the families compute the same bits. One device begins a run, and the
          // other resumes it.
          const host = new Example(['--device', 'host:0', '--replay', replay], env);
          const pairs =
            newest && replay === 'prioritized'
              ? [
                  [host, example],
                  [example, host],
                ]
              : [[host, example]];
          const want = await hostRun(replay);
          for (const [first, then] of pairs as [Example, Example][])
            await withFolder(async (folder) => {
              await first.run('--ticks', '50', '--resume', folder);
              const { ticks, weights, steps, episodes } = await then.run(
                '--ticks',
                '100',
                '--resume',
                folder,
              );
              expect({ ticks, weights, steps, episodes }, replay).to.deep.equal(want);
            });
        }
      },
    );

    (newest && mode.driver === 'cuda' ? itAll : itLong)(
      'passes the tests of rows on the device',
      async () => {
        const names = setting({ short: [], all: ['bytes', 'head', 'pipeline'], long: ['*'] });
        const files = names.map((name) => testFile(`device-rows/${name}`));
        expect(await runTests(mode, files, { HOTSLOT_TEST_SETTING: 'short' })).to.be.at.least(15);
      },
    );

    once('doctor lists the software driver, and auto never selects its device', async () => {
      const { stdout, status } = await run(mode, ['dist/src/cli/main.js', 'doctor']);
      expect(status).to.equal(0);
      expect(stdout).to.match(new RegExp(`${mode.device} +Hotslot software driver`));
      expect(stdout).to.match(new RegExp(`test ${mode.device} +copied to it and back`));
      const script =
        'import("hotslot").then(({ openDevice }) => console.log(openDevice("auto").name))';
      expect((await run(mode, ['--input-type=module', '-e', script])).stdout.trim()).to.equal(
        'host:0',
      );
    });

    more.call(this);
  });
}

/**
 * Declares the tests of modules above devices. With `brief`, `all` runs only part of them, and the
 * longest runs run all. With `declare: itLong`, only the longest runs run them.
 */
export function carriesAbove(
  mode: Mode,
  { brief = false, declare = it as typeof itLong } = {},
): void {
  const part = declare !== itLong && setting({ short: true, all: brief, long: false });
  const title = 'passes the tests of modules above devices';
  declare(
    part ? `${title}: transfers, graphs, memory (npm run test:long: the rest)` : title,
    async () => {
      const files = [...(part ? inPart : above), ...(SETTING === 'long' ? [] : elsewhere)];
      expect(await runTests(mode, files)).to.be.at.least(part ? 100 : 200);
    },
  );
}

/** Declares the tests that need two devices. `told` has the driver's options for that. */
export function hasPeers(
  mode: Mode,
  told: Record<string, string>,
  declare: typeof itAll | typeof itShort = itAll,
): void {
  declare('passes the tests of peer devices', async () => {
    expect(await runTests(mode, [testFile('device/peers')], told)).to.equal(8);
  });
  (declare === itLong ? itLong : itAll)(
    'passes the tests of linear operators on two devices',
    async () => {
      expect(await runTests(mode, [testFile('linop/*')], told)).to.be.at.least(140);
    },
  );
}
