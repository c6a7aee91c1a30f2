/**
 * Every family of devices over its software driver: the contract, all that is built on devices, a
 * training run, and the same run with driver calls failing. Every mode is a process of its own. A
 * test file per family says what each mode shows.
 */
import { expect } from 'chai';
import { Example, killedAndWhole, withFolder } from '../checkpoint/killed.ts';
import { itAll, itLong, type itShort, SETTING, setting } from '../rig/setting.ts';
import { testFile } from '../rig/test-file.ts';
import { environmentOf, libraryOf, type Mode, need, run, runTests } from './software.ts';

const folders = (...names: string[]) => names.map((name) => testFile(`${name}/*`));
/** What has tests of its own above devices: what asks most of one, and all of it. */
const closest = folders('transfer', 'graph', 'memory');
const above = [
  ...folders('actors', 'pipeline', 'learner', 'trace', 'linop', 'halo', 'gpu'),
  testFile('ranks/group'),
  ...closest,
];
/** And parts of halos that overlap. */
const inPart = [...closest, testFile('halo/overlap')];
/** Has run on the host, and asks nothing of a device. */
const elsewhere = [
  '--fgrep',
  ' on cpu',
  '--invert',
  ...['memory/compilation', 'halo/topology'].flatMap((name) => ['--ignore', testFile(name)]),
];

const hostRuns = new Map<string, Promise<object>>();
/** 100 ticks of the host that nobody disturbed; run once. */
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
  /** the one of its family that a short run is about */
  newest?: boolean;
  /**
   * sections of the contract in which `test:all` looks at the mode: those whose driver calls are
   * others than the newest one's
   */
  differs?: readonly string[];
}

/** One mode; one that is neither newest nor differs is for the longest runs. */
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
        // The host device is there too, and keeps it without a driver.
        const sections = part ? ` (${differs.join('|')}) ` : '';
        const own = ['--grep', `device contract on ${mode.device}${sections}`];
        const least = part ? 6 * differs.length : 100;
        expect(await runTests(mode, [testFile('device/contract'), ...own])).to.be.at.least(least);
      },
    );

    // In `all` the newest CUDA solves it, as the host does in test/cli/cartpole; in the longest
    // runs all do.
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
          // In turns the host and the families make the same bits: what one began, another ends.
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
              await first.run('--ticks', '50', '--checkpoint', folder);
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
 * All that has tests above devices; `brief`: the whole of it is for the longest runs; with
 * `itLong`, any of it.
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

/** What the driver is told beside its mode, for more than one device. */
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
