/**
 * Tests environments that Python steps: rows, episodes and ends in each autoreset mode, and the
 * errors of broken environments. The environments have Gymnasium's form and need only numpy,
 * because Gymnasium cannot be installed as a package here.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { expect } from 'chai';
import {
  type EnvironmentSet,
  evaluate,
  type GymnasiumOptions,
  gymnasium,
  vectorCollector,
} from '../../src/entries/collect.ts';
import { CollectorPool, ReplayBuffer, TrajectoryBuffer } from '../../src/index.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { counted, needNumpy, PYTHON } from './bridged.ts';
import { expectCounted, expectStacks } from './counted-rows.ts';
import { contextOf } from './counting.ts';

const ENTRY = new URL('./bridged.js', import.meta.url);
const ways = {
  'one by one': { entry: 'counting', kwargs: {} },
  disabled: { entry: 'counting_vector', kwargs: { mode: 'Disabled' } },
  'same-step': { entry: 'counting_vector', kwargs: { mode: 'SameStep' } },
  'next-step': { entry: 'counting_vector', kwargs: { mode: 'NextStep' } },
};
const zero = { act: (_: Float32Array, n: number) => new Float32Array(2 * n) };

const opened = (
  entry: string,
  kwargs: object,
  count = 2,
  more: GymnasiumOptions = {},
): Promise<EnvironmentSet> =>
  counted({ entry: `counting_envs:${entry}`, ...more }).open({ count, options: kwargs });
/**
 * Returns the ids of the Python processes that this process has started and not ended. Clears
 * LD_PRELOAD, because a preloaded sanitizer makes pgrep hang.
 */
function children(): string[] {
  const env = { PATH: process.env.PATH };
  const { stdout } = spawnSync('pgrep', ['-P', `${process.pid}`, '-f', 'hotslot_gymnasium'], {
    encoding: 'utf8',
    env,
  });
  return stdout.split('\n').filter(Boolean);
}

async function failing(promised: Promise<unknown>, says: RegExp): Promise<void> {
  expect((await rejection(promised)).message).to.match(says);
}

describe('gymnasium()', () => {
  before(function () {
    needNumpy(this);
  });
  afterEach(() => expect(children()).to.deep.equal([]));

  for (const [way, { entry, kwargs }] of Object.entries(ways)) {
    const declare = way === 'one by one' ? it : itAll;
    declare(`returns each step as one row with its action and end flags (${way})`, async () => {
      const { told, context } = contextOf();
      let played = 0;
      const policy = () => ({
        act(obs: Float32Array, n: number) {
          expectStacks(obs, n, 3);
          return Float32Array.from({ length: 2 * n }, () => (++played % 7) / 4);
        },
      });
      const make = { open: ({ count }: { count: number }) => opened(entry, kwargs, count) };
      const collector = await vectorCollector({ make, policy, environments: 3, stack: 3 })(context);
      const rows: number[] = [];
      let steps = 0;
      for (let step = 0; step < 60; step++) {
        const columns = (await collector.collect()) as Record<string, Float32Array> | null;
        const { obs, nextObs, actions, rewards, dones, truncated } = columns ?? {};
        for (let row = 0; row < (rewards?.length ?? 0); row++) {
          const [i, episode, count] = obs!.subarray(4 * row);
          // The row's action must be the one that the environment saw. Even episodes end by
          // truncation.
          expect(nextObs![4 * row + 3]).to.equal(actions![2 * row + 1]);
          const over = count! + 1 === 3 + i!;
          expect([dones![row], truncated![row]]).to.deep.equal([
            Number(over),
            Number(over && episode! % 2 === 0),
          ]);
          rows.push(
            ...obs!.subarray(4 * row, 4 * row + 4),
            ...nextObs!.subarray(4 * row, 4 * row + 4),
          );
          rows.push(0, 0, rewards![row]!, dones![row]!);
        }
        steps += rewards?.length ?? 0;
      }
      await collector.close?.();
      expectCounted(Float32Array.from(rows), 12);
      expect(told.steps).to.equal(steps);
      // In next-step mode beginning an episode takes a step of its own, so one step of every 4, 5
      // or 6 gives no row.
      const each = [3, 4, 5].map((length) =>
        way === 'next-step' ? 60 - Math.floor(60 / (length + 1)) : 60,
      );
      expect(steps).to.equal(each.reduce((sum, one) => sum + one, 0));
      const lengths = each.map((steps, i) => Math.floor(steps / (3 + i)));
      for (const [i, count] of lengths.entries())
        expect(told.episodes.filter(([, length]) => length === 3 + i)).to.have.length(count);
      expect(told.episodes[0]).to.deep.equal([1 + 2 + 3, 3]);
    });

    declare(`plays whole episodes in repeated calls of evaluate() (${way})`, async () => {
      const set = await opened(entry, kwargs, 3);
      for (let round = 0; round < 2; round++) {
        const { lengths, returns } = await evaluate({
          environments: set,
          policy: zero,
          episodes: 7,
        });
        for (const [k, length] of lengths.entries())
          expect(returns[k]).to.equal(length * 10 * (length - 3) + (length * (length + 1)) / 2);
        expect([...lengths].every((length) => length >= 3 && length <= 5)).to.equal(true);
      }
      // evaluate() may play fewer episodes than there are environments.
      expect(
        (await evaluate({ environments: set, policy: zero, episodes: 1 })).lengths,
      ).to.deep.equal(Float64Array.of(3));
      await set.close();
    });
  }

  for (const way of ['one by one', 'next-step'] as const) {
    itAll(`fills a ReplayBuffer from a collector pool (${way})`, async () => {
      const buffer = ReplayBuffer.offPolicy({ capacity: 1 << 14, obsDim: 4, actionDim: 2 });
      const options = { ...ways[way], environments: 3 };
      await using pool = await CollectorPool.open({ entry: ENTRY, buffer, options });
      await until('rows have come', () => buffer.ptr > 2000);
      await pool.close();
      const width = buffer.rowBytes / 4;
      const rows = buffer.gather(
        Uint32Array.from({ length: 2000 }, (_, i) => i),
        new Float32Array(2000 * width),
      );
      expectCounted(rows, width);
      buffer.close();
    });

    itAll(
      `assigns one TrajectoryBuffer lane to each environment in a collector pool (${way})`,
      async () => {
        const fields = { obs: { shape: [4], observation: true }, actions: { shape: [2] } } as const;
        const buffer = TrajectoryBuffer.create({ capacity: 3 << 12, lanes: 3, fields });
        await using pool = await CollectorPool.open({ entry: ENTRY, buffer, options: ways[way] });
        await until('steps have come', () => buffer.ptr > 1500);
        await pool.close();
        const view = buffer.transitions({ gamma: 0.5 });
        const { obs, nextObs, rewards, discounts } = buffer.sample({ view, seed: 3, count: 256 });
        for (let row = 0; row < 256; row++) {
          const [i, episode, count] = obs.subarray(4 * row);
          expect([...nextObs.subarray(4 * row, 4 * row + 3)]).to.deep.equal([
            i,
            episode,
            count! + 1,
          ]);
          expect(rewards[row]).to.equal(10 * i! + count! + 1);
          expect(discounts[row]).to.equal(count! + 1 === 3 + i! && episode! % 2 === 1 ? 0 : 0.5);
        }
        buffer.close();
      },
    );
  }

  it('maps the dtypes of observations, and adds the start of a Discrete space to actions', async () => {
    const set = await opened('counting', { discrete: 4, dtype: 'float16' });
    expect(set.spaces.action).to.deep.equal({ kind: 'discrete', n: 4, size: 1 });
    expect(set.spaces.observation).to.deep.equal({ shape: [4], size: 4, dtype: 'float32' });
    const steps = set.play({ nextSeed: () => 1 });
    steps.begin();
    steps.step([0, 3]);
    expect([steps.nextObs[3], steps.nextObs[7]]).to.deep.equal([3, 6]);
    expect(() => steps.step([0, 4])).to.throw('action 4 for environment 1: its actions are 0 to 3');
    await set.close();
    const bytes = await opened('counting', { dtype: 'uint8' });
    expect(bytes.play({ nextSeed: () => 1 }).obs).to.be.instanceOf(Uint8Array);
    await bytes.close();
  });

  itAll(
    'ends Python and rejects with the Python output or the invalid value when a step fails',
    async () => {
      const cases: [string, RegExp][] = [
        [
          'throws',
          /^counting_envs:broken: its Python \(process \d+\) ended; its last output:\n[\s\S]*the third step[\s\S]*RuntimeError: it broke$/,
        ],
        [
          'dies',
          /^counting_envs:broken: its Python \(process \d+\) ended; its last output:\nthe third step$/,
        ],
        [
          'short',
          /^environment 0 of those that evaluate: step\(\) returned an observation of shape \[3\], its space is \[4\], in step 3 of its episode$/,
        ],
        [
          'nan',
          // Environment 0's episode terminates in this step, so its NaN is accepted.
          /^environment 1 of those that evaluate: step\(\) returned NaN as number 1 of an observation, in step 3 of its episode$/,
        ],
        [
          'reward',
          /^environment 0 of those that evaluate: reward must be a number that is finite in single precision, got Infinity, in step 3/,
        ],
      ];
      for (const [how, says] of cases) {
        const set = await opened('broken', { how });
        await failing(evaluate({ environments: set, policy: zero }), says);
        await set.close();
        await set.close();
      }
    },
  );

  const silent = async () => {
    const set = await opened('broken', { how: 'hangs' }, 2, { timeout: 10 });
    await failing(
      evaluate({ environments: set, policy: zero }),
      /was busy with a step for 10 s and was ended; the option timeout allows more; its last output:\n[\s\S]*File "[^"]*counting_envs.py", line \d+ in step/,
    );
    await set.close();
    expect(() => set.play({ nextSeed: () => 1 }).begin()).to.throw('is closed');
  };

  it('close() rejects with the exit code and the output when closing the environments fails', async () => {
    await failing(
      Promise.resolve((await opened('broken', { how: 'close' })).close()),
      /closing its environments failed, with exit code 1[\s\S]*it does not close$/,
    );
  });

  itAll(
    'waits for the exit code of Python when its pipe closes first and nothing else keeps Node.js alive',
    () => {
      const script = `
      import { counted } from ${JSON.stringify(new URL('./bridged.js', import.meta.url).href)};
      await counted({ entry: 'counting_envs:parting' }).open({ count: 1, options: { seconds: 0.3 } }).catch((error) => console.log(error.message));`;
      const { status, stdout } = spawnSync(
        process.execPath,
        ['--input-type=module', '-e', script],
        { encoding: 'utf8' },
      );
      expect([status, stdout]).to.deep.equal([
        0,
        'counting_envs:parting: its Python exited before its environments were ready, with exit code 7\n',
      ]);
    },
  );

  const parting = () =>
    failing(
      opened('parting', { seconds: 1000 }),
      /its Python closed the pipes to Hotslot, but did not exit$/,
    );
  const lingering = async () => (await opened('broken', { how: 'lingers' })).close();

  // Each of the three waits for seconds, so they run at once.
  itAll(
    'ends a Python process that does not answer, closes its pipes without exiting, or lingers after close()',
    () => Promise.all([silent(), parting(), lingering()]).then(() => {}),
  );

  const open = (buffer: ReplayBuffer, how: string) =>
    CollectorPool.open({
      entry: ENTRY,
      buffer,
      options: { entry: 'broken', kwargs: { how }, environments: 1 },
    });

  itAll('rejects CollectorPool.done with the last output of Python when Python exits', async () => {
    const buffer = ReplayBuffer.offPolicy({ capacity: 1024, obsDim: 4, actionDim: 2 });
    await failing(
      (await open(buffer, 'dies')).done,
      /its Python \(process \d+\) ended; its last output:\nthe third step/,
    );
    buffer.close();
  });

  itAll('ends a Python process that does not answer when its CollectorPool closes', async () => {
    const buffer = ReplayBuffer.offPolicy({ capacity: 1024, obsDim: 4, actionDim: 2 });
    const pool = await open(buffer, 'hangs');
    await until('two rows have come', () => buffer.ptr === 2);
    await pool.close();
    await until('its process is gone', () => children().length === 0);
    buffer.close();
  });

  itAll('open() rejects with the cause when the environments cannot be created', async () => {
    const cases: [GymnasiumOptions, object, RegExp][] = [
      [
        { entry: 'nowhere:make' },
        {},
        /^nowhere:make: \S+ has no module nowhere, which is needed for nowhere:make$/,
      ],
      [
        { entry: 'counting_envs:nothing' },
        {},
        /: counting_envs has no nothing, which is asked for$/,
      ],
      [
        { entry: 'counting_envs:counting' },
        { odd: 1 },
        /exit code 1; its last output:\n[\s\S]*TypeError: [\s\S]*'odd'$/,
      ],
      [
        { entry: 'counting_envs:odd_spaces' },
        { what: 'dict' },
        /: Hotslot takes Box; wrap the environment by gymnasium.wrappers.FlattenObservation$/,
      ],
      [
        { entry: 'counting_envs:odd_spaces' },
        { what: 'complex' },
        /observations are Box of complex64: Hotslot takes float32, float64, .*DtypeObservation with float32$/,
      ],
      [
        { entry: 'counting_envs:odd_spaces' },
        { what: 'tuple' },
        /actions are \(1, 2\): Hotslot takes Discrete, and Box of floats; /,
      ],
      [
        { entry: 'counting_envs:odd_spaces' },
        { what: 'endless' },
        /^actionSpace needs low and high, numbers that are finite/,
      ],
      [
        { entry: 'counting_envs:counting_vector' },
        { mode: 'Sometimes' },
        /autoreset_mode is Sometimes: it must be NEXT_STEP, SAME_STEP or DISABLED$/,
      ],
      [
        { id: 'Any-v1', python: '/nowhere/python' },
        {},
        /^Any-v1: \/nowhere\/python could not be started: .*ENOENT; the option python gives another one$/,
      ],
    ];
    for (const [options, kwargs, says] of cases)
      await failing(counted(options).open({ count: 1, options: kwargs }), says);
    if (spawnSync(PYTHON, ['-c', 'import gymnasium']).status !== 0)
      await failing(
        counted({ id: 'CartPole-v1' }).open({ count: 1, options: {} }),
        /has no module gymnasium: pip install gymnasium$/,
      );
  });

  it('throws when an option is invalid', () => {
    const refusals: [object, RegExp][] = [
      [{}, /needs either id, such as 'CartPole-v1', or entry/],
      [{ id: 'a', entry: 'b:c' }, /needs either id/],
      [{ entry: 'make' }, /^entry must be 'module:function', got 'make'$/],
      [{ id: 3 }, /^id must be a string, got 3$/],
      [{ id: 'a', kwargs: [] }, /^kwargs must be an object of keyword arguments/],
      [
        { id: 'a', vectorization: 'both' },
        /^vectorization must be one of sync, async, vector_entry_point, got 'both'$/,
      ],
      [{ entry: 'a:b', vectorization: 'sync' }, /^vectorization needs id/],
      [{ id: 'a', timeout: 0 }, /^timeout must be a number of seconds above 0, got 0$/],
      [{ id: 'a', output: 'loud' }, /^output must be 'kept' or 'shown', got 'loud'$/],
      [{ id: 'a', path: 3 }, /^path must be a folder/],
      [{ id: 'a', pyhton: 'x' }, /^gymnasium: unknown option 'pyhton'/],
    ];
    for (const [options, says] of refusals)
      expect(() => gymnasium(options as never)).to.throw(says);
  });

  it('has its Python modules under src/', () => {
    for (const name of ['gymnasium', 'returned', 'spaces']) {
      const script = new URL(
        `../../../src/run/environments/gymnasium/hotslot_${name}.py`,
        import.meta.url,
      );
      expect(existsSync(script), name).to.equal(true);
    }
  });
});
