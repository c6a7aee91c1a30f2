/**
 * Tests which spaces of Python environments are accepted, and that values travel both ways exactly
 * or are rejected with an error that names the value.
 */
import { expect } from 'chai';
import type { EnvironmentSet, SteppedSet } from '../../src/entries/collect.ts';
import { gymnasium } from '../../src/entries/collect.ts';
import { planOf } from '../../src/run/train/algorithms.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { counted, needGymnasium, needNumpy } from './bridged.ts';

const opened = (entry: string, kwargs: object, count = 1): Promise<EnvironmentSet> =>
  counted({ entry: `counting_envs:${entry}` }).open({ count, options: kwargs });

/** Steps a set of environments with `play` and closes the set. */
async function playing(
  entry: string,
  kwargs: object,
  count: number,
  play: (steps: SteppedSet, set: EnvironmentSet) => void,
): Promise<void> {
  const set = await opened(entry, kwargs, count);
  try {
    const steps = set.play({ nextSeed: () => 1 });
    steps.begin();
    play(steps, set);
  } finally {
    await set.close();
  }
}

/** Checks the error of the step with each action. null: the step is accepted. */
const each =
  (says: (string | null)[], count = 1) =>
  (steps: SteppedSet): void => {
    for (const [action, text] of says.entries()) {
      steps.begin();
      const step = () => steps.step(Array(count).fill(action));
      if (text === null) step();
      else
        expect(step, `action ${action}`).to.throw(
          new RegExp(`^${text.replace(/[[\](){}.+?*]/g, '\\$&')}$`),
        );
    }
  };

describe('gymnasium(): values', () => {
  before(function () {
    needNumpy(this);
  });

  it('rejects invalid uint8 observations, flags and rewards with the environment and the value', () => {
    const steps = [0.9, 300, -1, Number.NaN, 255].map((value) => [0, 0, value, 1]);
    const more = [
      { obs: [0, 1, 2] },
      { obs: [1, 2, 3, 4], terminated: 0.5 },
      { obs: [1, 2, 3, 4], truncated: null },
      { obs: [1, 2, 3, 4], reward: [1, 2] },
      { obs: [1, 2, 3, 4], reward: [1], terminated: 1 },
      { obs: [1, 2, 3, 'a'] },
      { tuple: [[1, 2, 3, 4], 1, false, {}] },
    ];
    const at = ', in step 1 of its episode';
    const has = ` as number 2 of an observation, which uint8 cannot hold${at}`;
    return playing('returned', { dtype: 'uint8', steps: [...steps, ...more] }, 1, (played) => {
      each([
        `environment 0: step() returned 0.9${has}`,
        `environment 0: step() returned 300${has}`,
        `environment 0: step() returned -1${has}`,
        `environment 0: step() returned NaN${has}`,
        null,
        `environment 0: step() returned an observation of shape [3], its space is [4]${at}`,
        `environment 0: step() returned 0.5 as terminated, which must be a boolean${at}`,
        `environment 0: step() returned None as truncated, which must be a boolean${at}`,
        `environment 0: step() returned [1, 2] as reward, which must be a number${at}`,
        null,
        `environment 0: step() returned an observation of <U21, its space is uint8${at}`,
        `environment 0: step() returned 4 values, which are not (observation, reward, terminated, truncated, info)${at}`,
      ])(played);
      played.begin();
      played.step([4]);
      expect([...played.nextObs]).to.deep.equal([0, 0, 255, 1]);
    });
  });

  it('rejects 1e39 for float32, and accepts NaN and Infinity only in the observation of a terminated step', () => {
    const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;
    const steps = [
      [0, 1e39, 0, 0],
      [0, nan, 0, 0],
      { obs: [0, nan, 0, 0], truncated: true },
      { obs: [0, 0, infinity, 0], truncated: true },
      { obs: [infinity, nan, 3, 0], terminated: true },
    ];
    const at = ', in step 1 of its episode';
    return playing('returned', { dtype: 'float32', steps }, 1, (played) => {
      each([
        `environment 0: step() returned 1e+39 as number 1 of an observation, which float32 cannot hold${at}`,
        `environment 0: step() returned NaN as number 1 of an observation${at}`,
        `environment 0: step() returned NaN as number 1 of an observation${at}`,
        `environment 0: step() returned Infinity as number 2 of an observation${at}`,
        null,
      ])(played);
      expect([[...played.nextObs], [...played.obs], played.terminated[0]]).to.deep.equal([
        [infinity, nan, 3, 0],
        [0, 0, 0, 0],
        1,
      ]);
    });
  });

  const dtypes: [string, string, unknown[], (string | null)[]][] = [
    [
      'bool',
      'int8',
      [true, 1, 2],
      [null, null, '2 as number 1 of an observation, which bool cannot hold'],
    ],
    [
      'int64',
      'int32',
      [-(2 ** 31), 2 ** 31],
      [
        null,
        '2147483648 as number 1 of an observation, which int32 cannot hold: int64 travels as int32',
      ],
    ],
    [
      'uint64',
      'uint32',
      [2 ** 32 - 1, 2 ** 32],
      [
        null,
        '4294967296 as number 1 of an observation, which uint32 cannot hold: uint64 travels as uint32',
      ],
    ],
    [
      'float16',
      'float32',
      [0.5, 1e39],
      [null, '1e+39 as number 1 of an observation, which float32 cannot hold'],
    ],
    ['float64', 'float64', [1e39], [null]],
  ];
  for (const [dtype, travels, values, says] of dtypes) {
    const declare = dtype === 'int64' ? it : itAll;
    declare(`returns observations of dtype ${dtype} as ${travels}`, () => {
      const steps = values.map((value) => [0, value]);
      return playing('returned', { dtype, steps, obs_size: 2 }, 1, (played, set) => {
        expect(set.spaces.observation).to.deep.equal({ shape: [2], size: 2, dtype: travels });
        // train() divides only the bytes of images by 255.
        const image = { ...set.spaces, observation: { ...set.spaces.observation, shape: [2, 1] } };
        const learner = { algorithm: 'dqn', convolutions: [{ filters: 1, kernel: 1 }] } as const;
        expect(planOf(learner, image, { seed: 0, stack: 1 }).policy).to.include({ scale: 1 });
        const at = ', in step 1 of its episode';
        each(
          says.map((one) => (one === null ? null : `environment 0: step() returned ${one}${at}`)),
        )(played);
        played.begin();
        played.step([0]);
        expect([...played.nextObs]).to.deep.equal([0, Number(values[0])]);
      });
    });
  }

  for (const mode of ['Disabled', 'SameStep', 'NextStep']) {
    const declare = mode === 'NextStep' ? it : itAll;
    declare(`rejects results of the wrong shape from a vector environment in ${mode} mode`, () => {
      const three = (value: unknown) => [value, value, value];
      const finals = { final_obs: three([1, 1, 1]) };
      const steps = [
        { obs: [1, 2] },
        { obs: three([1, 2]) },
        { reward: [1] },
        { reward: 1 },
        { terminated: true },
        { truncated: [true] },
        { terminated: [0, 2, 0] },
        { obs: three([0, 0, 0, 1e39]) },
        { terminated: three(true), info: finals },
      ];
      const plain = 'counting_envs:returned_vector: step() returned ';
      const one = 'environment 1: step() returned ';
      const at = ', in step 1 of its episode';
      return playing('returned_vector', { mode, steps }, 3, (played) => {
        each(
          [
            `${plain}observations of shape [2]: 3 environments have [3, 4]`,
            `${plain}observations of shape [3, 2]: 3 environments have [3, 4]`,
            `${plain}rewards of shape [1]: 3 environments have [3]`,
            `${plain}rewards of shape []: 3 environments have [3]`,
            `${plain}terminated of shape []: 3 environments have [3]`,
            `${plain}truncated of shape [1]: 3 environments have [3]`,
            `${one}2 as terminated, which must be a boolean${at}`,
            `environment 0: step() returned 1e+39 as number 3 of an observation, which float32 cannot hold${at}`,
            mode === 'SameStep'
              ? `environment 0: step() returned an observation of shape [3], its space is [4]${at}`
              : null,
          ],
          3,
        )(played);
      });
    });
  }

  it('keeps NaN of a terminated step in nextObs and passes 0 to the policy in NextStep mode', () => {
    const last = { obs: [[0, Number.NaN, 3, 0]], terminated: [true] };
    return playing('returned_vector', { mode: 'NextStep', steps: [{}, last] }, 1, (played) => {
      played.step([1]);
      expect([[...played.nextObs], [...played.obs]]).to.deep.equal([
        [0, Number.NaN, 3, 0],
        [0, 0, 3, 0],
      ]);
      // The next step begins an episode. Its first observation does not follow a terminated step,
      // so NaN is rejected.
      expect(() => played.step([1])).to.throw(
        'environment 0: step() returned NaN as number 1 of an observation, in step 1 of its episode',
      );
    });
  });

  const boxes: [string, number[]][] = [
    ['float64', [2]],
    ['float32', [2, 1]],
    ['float16', [2]],
    ['float64', []],
  ];
  for (const [dtype, shape] of boxes) {
    const declare = dtype === 'float64' && shape.length === 1 ? it : itAll;
    declare(
      `gives an environment its own action arrays of ${dtype} and shape [${shape}] to keep and modify`,
      () =>
        playing('keeper', { dtype, shape, low: -0.1, high: 0.1 }, 2, (played) => {
          const n = shape.length === 0 ? 1 : 2;
          // A float64 bound can lie between two float32 values. Actions use the value inside the
          // box.
          const least = { float16: -0.0999755859375, float32: -0.1, float64: -0.09999999403953552 }[
            dtype
          ] as number;
          const shows = [least, 1 / 32, 1 / 16].map((value) => {
            played.step(Float32Array.from({ length: 2 * n }, (_, i) => (i < n ? value : 1 / 32)));
            return [...played.nextObs];
          });
          // What the environment shows: whether dtype and shape are right, whether the action is
          // inside the box, its first element now, and both ends of the first action that it kept.
          const low = dtype === 'float32' ? Math.fround(-0.1) : least;
          const [first, second] = n === 1 ? [77, 77] : [low, 1 / 32];
          const at = (step: number, last: number) => (step === 0 ? last : 77);
          for (const [step, now] of [low, 1 / 32, 1 / 16].entries())
            expect(shows[step]).to.deep.equal([
              1,
              1,
              now,
              n === 1 ? at(step, now) : first,
              at(step, low),
              1,
              1,
              1 / 32,
              n === 1 ? at(step, 1 / 32) : second,
              at(step, 1 / 32),
            ]);
        }),
    );
  }

  itAll('gives a vector environment its own action arrays to keep and modify', () =>
    playing('keeper_vector', { mode: 'NextStep' }, 2, (played) => {
      played.step([0, 1, 2, -1]);
      expect([...played.nextObs]).to.deep.equal([0, 1, 0, 1, 2, -1, 2, -1]);
      played.step([0.5, 0.5, 0.5, 0.5]);
      expect([...played.nextObs]).to.deep.equal([0.5, 0.5, 0, 77, 0.5, 0.5, 2, 77]);
    }),
  );

  itAll('accepts subclasses of Box and Discrete, and adds start to Discrete actions', () =>
    playing('odd_spaces', { what: 'subclasses' }, 1, (played, set) => {
      expect([set.spaces.action, set.spaces.observation.dtype]).to.deep.equal([
        { kind: 'discrete', n: 2, size: 1 },
        'int32',
      ]);
      played.step([1]);
      expect(played.nextObs[3]).to.equal(-4);
    }),
  );

  const refusals: [string, string, RegExp][] = [
    [
      'odd_spaces',
      'binary',
      /actions are .*MultiBinary.*: Hotslot takes Discrete, and Box of floats; wrap the environment by gymnasium.wrappers.TransformAction with an action_space that is one of these$/,
    ],
    [
      'odd_spaces',
      'binary shown',
      /observations are .*: Hotslot takes Box; .* by gymnasium.wrappers.FlattenObservation$/,
    ],
    [
      'odd_spaces',
      'graph shown',
      /: Hotslot takes Box; .* gymnasium.wrappers.TransformObservation with an observation_space that is a Box$/,
    ],
    ['odd_spaces', 'discrete shown', /: Hotslot takes Box; .*FlattenObservation$/],
    [
      'odd_spaces',
      'whole',
      /actions are Box of int32: Hotslot's boxes of actions are continuous; .*TransformAction with/,
    ],
    ['odd_spaces', 'bool', /actions are Box of bool: Hotslot's boxes of actions are continuous/],
  ];
  itAll(
    'rejects unsupported spaces with a wrapper to use, and rejects objects that are not a VectorEnv',
    async () => {
      for (const [entry, what, says] of refusals)
        expect((await rejection(opened(entry, { what }))).message, what).to.match(says);
      expect((await rejection(opened('pool', {}, 3))).message).to.match(
        /^counting_envs:pool: Pool has no num_envs, single_observation_space, single_action_space, step, close: it must be in the form of gymnasium.vector.VectorEnv$/,
      );
    },
  );

  itAll('passes keyword arguments to Python with their types and values', async () => {
    const kwargs = {
      ends: [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN, -0, 0.1, 3],
      table: new Map<unknown, unknown>([
        ['a', null],
        [1, { deep: true }],
      ]),
      pixels: Uint8Array.of(1, 2),
      big: 2n ** 70n,
    };
    expect((await rejection(opened('told', kwargs))).message).to.match(
      /RuntimeError: ends=\[inf, -inf, nan, -0.0, 0.1, 3\] table=\{'a': None, 1: \{'deep': True\}\} pixels=array\(\[1, 2\], dtype=uint8\) big=1180591620717411303424$/,
    );
    const long = 'x'.repeat(300_000);
    expect((await rejection(opened('told', { long }))).message).to.match(
      /RuntimeError: long='|x'$/,
    );
  });

  it('rejects keyword arguments that Python cannot represent, with their path', async () => {
    const cyclic: Record<string, unknown> = {};
    cyclic.inside = [cyclic];
    const refused: [unknown, RegExp][] = [
      [
        { a: undefined },
        /^kwargs: a is undefined, which Python lacks; leave it out, or give null for None$/,
      ],
      [
        { a: { b: [1, () => 1] } },
        /^kwargs: a.b\[1\] is a function, which cannot be sent to Python$/,
      ],
      [{ a: Symbol('x') }, /^kwargs: a is Symbol\(x\), which cannot be sent/],
      [
        { a: new Date(0) },
        /^kwargs: a is a Date, which cannot be sent to Python: give plain objects, Maps/,
      ],
      [{ a: new Set([1]) }, /^kwargs: a is a Set/],
      [
        { a: new Map([[{}, 1]]) },
        /^kwargs: a has an object as a key, which a dict of Python cannot have$/,
      ],
      [{ a: cyclic }, /^kwargs: a.inside\[0\] contains itself, and cannot be sent to Python$/],
      [{ [Symbol('x')]: 1 }, /^kwargs has a symbol as a key: use a string$/],
      [new Map([['a', 1]]), /^kwargs must be an object of keyword arguments, got a Map$/],
      [[1], /^kwargs must be an object of keyword arguments, got an array of 1$/],
      // biome-ignore lint/suspicious/noSparseArray: a hole is what is refused
      [{ a: [1, , 2] }, /^kwargs: a\[1\] is undefined/],
    ];
    for (const [kwargs, says] of refused)
      expect(() => gymnasium({ id: 'Any-v1', kwargs: kwargs as never })).to.throw(says);
    const { open } = gymnasium({ id: 'Any-v1', python: '/nowhere/python' });
    expect((await rejection(open({ count: 1, options: 'windy' }))).message).to.equal(
      "the environment options must be an object of keyword arguments, got 'windy'",
    );
    expect((await rejection(open({ count: 1, options: { wind: undefined } }))).message).to.match(
      /^the environment options: wind is undefined/,
    );
  });

  itAll('returns the individual bounds of 100,000 action elements', async () => {
    const set = await opened('big', { shape: [2], actions: 100_000 });
    const { action } = set.spaces;
    await set.close();
    if (action.kind !== 'box') throw new Error('a box was expected');
    expect([action.low.slice(0, 2), action.high.slice(0, 3), action.high.length]).to.deep.equal([
      [-1, -1],
      [2, 1, 2],
      100_000,
    ]);
  });

  itAll('rejects observations of more than 2 GiB per step', async () => {
    expect((await rejection(opened('big', { shape: [3, 65536, 65536] }))).message).to.equal(
      'counting_envs:big: observations of 1 environments, [3, 65536, 65536] of uint8 each, take 12884901888 bytes: Hotslot takes 2147483648 at once; make them smaller, or fewer environments',
    );
  });

  itAll('steps an environment with observations of 48 MiB', () =>
    playing('big', { shape: [3, 4096, 4096] }, 1, (played) => {
      played.step([0, 0]);
      expect([played.nextObs.length, played.nextObs.at(-1)]).to.deep.equal([3 * 2 ** 24, 7]);
    }),
  );

  itAll(
    'accepts Gymnasium environments after they are wrapped as the error messages advise',
    async function () {
      needGymnasium(this);
      const wrappers: [string, string, RegExp | null][] = [
        ...['discrete', 'binary', 'multi', 'text', 'dict', 'tuple', 'oneof'].map(
          (what) => [what, 'flat', /FlattenObservation$/] as [string, string, RegExp],
        ),
        ['graph', 'box', /TransformObservation with an observation_space that is a Box$/],
        ['sequence', 'box', /TransformObservation with an observation_space that is a Box$/],
        ['long', 'float32', /DtypeObservation with float32$/],
        ['image', 'moved', null],
        ['image', 'gray', null],
        ['whole', 'action', /TransformAction with a func that rounds to int32/],
        ['nvec', 'action', /TransformAction with an action_space that is one of these$/],
      ];
      for (const [what, wrapper, says] of wrappers) {
        if (says)
          expect((await rejection(opened('wrapped', { what }))).message, what).to.match(says);
        await playing('wrapped', { what: `${what} ${wrapper}` }, 1, (played) => {
          played.step(played.spaces.action.kind === 'discrete' ? [0] : [0.6, 1]);
        });
      }
    },
  );
});
