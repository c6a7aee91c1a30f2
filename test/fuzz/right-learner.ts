/** Right arguments of networks, learners, policies and operations. */
import { device, type Rows, stream, tensor } from './right-device.ts';
import {
  array,
  either,
  flag,
  form,
  type Gen,
  list,
  maybe,
  one,
  real,
  record,
  tuple,
  whole,
} from './values.ts';

const sizes = list(whole(1, 4), 2, 4);
const activation = one(
  "'relu'",
  "'tanh'",
  "'silu'",
  "'gelu'",
  "'elu'",
  "'sigmoid'",
  "'none'",
  "'linear'",
);
const adam: Readonly<Record<string, Gen>> = {
  learningRate: real(0, 0.1),
  beta1: real(0, 0.99),
  beta2: real(0, 0.99),
  epsilon: real(1e-9, 1e-3),
  weightDecay: real(0, 1),
  decoupled: flag,
  maxGradNorm: real(0.1, 2),
};
const layer: Gen = (random) =>
  either(
    form('learner.linear($, $)', whole(1, 3), whole(1, 3)),
    one(
      'learner.relu()',
      'learner.tanh()',
      'learner.gelu()',
      'learner.layerNorm(2)',
      'learner.flatten()',
    ),
  )(random);
const floats = (shape: string) => {
  const right = `w.big.view({ shape: ${shape} })`;
  return one(
    ...Array.from({ length: 20 }, () => right),
    `w.big.view({ shape: ${shape}, offset: 16 })`,
    'w.matrix',
    'w.tensor',
  );
};
const image = tuple(whole(1, 2), whole(2, 5), whole(2, 5));
const head = either(
  one("{ kind: 'scalar' }"),
  record({ kind: one("'categorical'"), min: real(-2, 0), max: real(0, 2) }, { atoms: whole(2, 5) }),
);
const box = either(real(-2, 0), list(real(-2, 2), 1, 2));
const actor: Readonly<Record<string, Gen>> = {
  obsDim: whole(1, 3),
  actionDim: whole(1, 2),
  actorHidden: list(whole(1, 4), 0, 2),
};
const actorMore: Readonly<Record<string, Gen>> = {
  actionLow: box,
  actionHigh: either(real(0.5, 2), list(real(0, 2), 1, 2)),
  layerNorm: flag,
  activation,
  normalizer: either(
    flag,
    record(
      {},
      { epsilon: real(1e-6, 1e-2), clip: real(1, 9), form: one("'variance'", "'deviation'") },
    ),
  ),
};
const gaussian: Readonly<Record<string, Gen>> = {
  logStd: record({}, { form: one("'tanh'", "'clamp'"), min: real(-9, -1), max: real(0, 2) }),
  meanClamp: real(1, 9),
  correction: one("'scaled'", "'unscaled'", "'split'", "'exact'"),
};
const criticMore: Readonly<Record<string, Gen>> = {
  ...actorMore,
  criticObsDim: whole(1, 3),
  critics: whole(1, 3),
  critic: head,
  clippedDouble: flag,
  actorValue: one("'min'", "'mean'", "'first'"),
  gamma: real(0, 1),
  tau: real(0, 1),
  targetEvery: whole(1, 3),
  actorEvery: whole(1, 3),
  firstUpdate: whole(0, 3),
  rewardScale: real(0.1, 2),
  actorOptimizer: record({}, adam),
  criticOptimizer: record({}, adam),
  maxGradNorm: real(0.1, 2),
  seed: whole(0, 9),
};
const critic = { ...actor, batchSize: whole(1, 4), criticHidden: list(whole(1, 4), 0, 2) };
const dqnNetwork: Readonly<Record<string, Gen>> = {
  obsDim: whole(1, 4),
  actions: whole(1, 3),
  hidden: list(whole(1, 4), 0, 2),
};
const dqnMore: Readonly<Record<string, Gen>> = {
  activation,
  dueling: flag,
  head,
  image,
  convolutions: list(
    record(
      { filters: whole(1, 2), kernel: whole(1, 3) },
      { stride: whole(1, 2), padding: whole(0, 1) },
    ),
    0,
    2,
  ),
  body: list(layer, 0, 2),
};
const batch = record(
  {
    obs: floats('[2, 2]'),
    nextObs: floats('[2, 2]'),
    rewards: floats('[2]'),
    dones: floats('[2]'),
    truncated: floats('[2]'),
    actions: one(
      'w.big.view({ shape: [2, 1] })',
      'w.ints.view({ shape: [2] })',
      'w.big.view({ shape: [2] })',
    ),
  },
  { weights: floats('[2]'), priorities: floats('[2]'), discounts: floats('[2]') },
);
const update = [
  stream,
  batch,
  floats('[6]'),
  maybe(
    record(
      {},
      { weights: floats('[2]'), priorities: floats('[2]'), draws: one('{}'), record: one('{}') },
    ),
  ),
];
const state = either(
  one('{}', "{ 'q.0.weight': { dtype: 'float32', shape: [2], data: new Float32Array(2) } }"),
  form(
    '{ a: { dtype: $, shape: [$], data: $ } }',
    one("'float32'", "'int64'"),
    whole(0, 3),
    array('Float32Array', 0, 1, 2),
  ),
);
const parameters = one(
  ...Array.from({ length: 6 }, () => 'w.mlp.over(w.big.view({ shape: [13] }))'),
  'w.mlp.over(w.big)',
  '[]',
  '[[w.tensor]]',
);
const learnerRows = (name: string): Rows => ({
  [`${name}.update`]: update,
  [`${name}.loadState`]: [state],
  [`${name}.watch`]: [record({}, { every: whole(1, 9) })],
});
const shapes = ['[2, 3]', '[2, 1]', '[3]', '[1]', '[]', '[2, 2]', '[4]', '[0]'];
/** Most tensors have the same shape, so that they fit each other. */
const any: Gen = (random) =>
  random.below(5) > 0
    ? one(
        'w.big.view({ shape: [2, 3] })',
        'w.big.view({ shape: [2, 3], offset: 8 })',
        'w.matrix',
      )(random)
    : either(
        tensor,
        one(...shapes.map((each) => `w.big.view({ shape: ${each} })`)),
        one('w.big.view({ shape: [2, 3], strides: [1, 2] })'),
      )(random);
const unaries = [
  'abs',
  'neg',
  'sign',
  'square',
  'sqrt',
  'rsqrt',
  'reciprocal',
  'exp',
  'log',
  'tanh',
  'sigmoid',
  'softplus',
  'relu',
  'silu',
  'gelu',
  'geluTanh',
  'elu',
  'log1p',
  'sin',
  'cos',
  'floor',
];
const binaries = [
  'add',
  'sub',
  'mul',
  'div',
  'min',
  'max',
  'eq',
  'ne',
  'lt',
  'le',
  'gt',
  'ge',
  'pow',
  'huber',
  'gather',
  'scatterAdd',
];
const rowsOf = (names: readonly string[], row: readonly Gen[]): Rows =>
  Object.fromEntries(names.map((each) => [`ops.${each}`, row]));

export const learnerTable: Rows = {
  ...rowsOf([...unaries, 'softmax', 'logSoftmax'], [stream, any, any]),
  ...rowsOf(
    ['sum', 'mean', 'logSumExp', 'argmax', 'argmin'],
    [stream, either(floats('[2, 1]'), floats('[2]'), any), any],
  ),
  ...rowsOf([...binaries, ...unaries.map((each) => `backward.${each}`)], [stream, any, any, any]),
  'ops.where': [stream, any, any, any, any],
  'ops.clamp': [stream, any, any, real(-1, 0), real(0, 1)],
  'ops.concat': [stream, any, list(any, 1, 3)],
  'ops.convert': [stream, any, any, record({}, { scale: real(0, 2), shift: real(-1, 1) })],
  'ops.matmul': [
    stream,
    floats('[2, 2]'),
    floats('[2, 3]'),
    floats('[3, 2]'),
    maybe(record({}, { transA: flag, transB: flag, alpha: real(0, 2), beta: real(0, 2) })),
  ],
  convert: [stream, any, any, record({}, { scale: real(0, 2), shift: real(-1, 1) })],
  'new Adam': [device, floats('[4]'), record({}, adam)],
  'Adam.norm': [stream, floats('[64]'), floats('[1]')],
  'Adam.step': [stream, one('w.big', 'w.tensor')],
  'Adam.setLearningRate': [real(0, 1), maybe(stream)],
  'new Mlp': [record({ sizes }, { activation, outputActivation: activation })],
  'new MlpPolicy': [
    either(record({ sizes }, { activation }), one('w.mlp')),
    maybe(array('Float32Array', 6, 13)),
  ],
  'new Network': [list(layer, 1, 3)],
  'new Normalizer': [
    device,
    record({ size: whole(1, 4), rows: whole(1, 4) }, { published: floats('[9]') }),
    record(
      {},
      { form: one("'variance'", "'deviation'"), epsilon: real(1e-6, 1), clip: real(1, 9) },
    ),
  ],
  'Normalizer.update': [stream, floats('[2, 3]')],
  'Normalizer.apply': [stream, floats('[2, 3]'), floats('[2, 3]')],
  'new DqnLearner': [
    device,
    record(
      { ...dqnNetwork, batchSize: whole(1, 4) },
      {
        ...adam,
        ...dqnMore,
        gamma: real(0, 1),
        double: flag,
        huberDelta: real(0.1, 2),
        tau: real(0, 1),
        targetEvery: whole(1, 9),
        seed: whole(0, 9),
      },
    ),
  ],
  'new DqnPolicy': [record(dqnNetwork, dqnMore)],
  'new SacLearner': [
    device,
    record(critic, {
      ...criticMore,
      ...gaussian,
      policyRepeats: whole(1, 2),
      temperature: either(one("'auto'"), real(0, 1)),
      initialTemperature: real(0.1, 2),
      temperatureFrom: one("'actor'", "'next'"),
      temperatureOptimizer: record({}, adam),
      targetEntropy: real(-2, 0),
    }),
  ],
  'new Td3Learner': [
    device,
    record(critic, {
      ...criticMore,
      policyNoise: real(0, 1),
      noiseClip: real(0, 1),
      targetActor: flag,
      behaviorCloning: record({}, { alpha: real(0, 3) }),
    }),
  ],
  'new SacPolicy': [
    record(actor, { ...actorMore, ...gaussian }),
    record({}, { greedy: flag, seed: whole(0, 9) }),
  ],
  'new Td3Policy': [record(actor, actorMore), record({}, { noise: real(0, 1), seed: whole(0, 9) })],
  'SacLearner.policy': [record({}, { greedy: flag, seed: whole(0, 9) })],
  'Td3Learner.policy': [record({}, { noise: real(0, 1), seed: whole(0, 9) })],
  ...Object.fromEntries(
    ['MlpPolicy', 'SacPolicy', 'Td3Policy'].flatMap((each) => [
      [`${each}.load`, [array('Float32Array', 6, 8, 13, 11)]],
      [`${each}.act`, [array('Float32Array', 2, 4), whole(1, 2)]],
    ]),
  ),
  'MlpPolicy.values': [array('Float32Array', 2, 4), whole(1, 2)],
  ...learnerRows('DqnLearner'),
  ...learnerRows('Td3Learner'),
  ...learnerRows('SacLearner'),
  'new SquashedGaussian': [
    device,
    record({ actionDim: whole(1, 3), rows: whole(1, 3) }, {}),
    record({}, { ...gaussian, actionLow: box, actionHigh: real(1, 2) }),
  ],
  'SquashedGaussian.sample': [
    stream,
    floats('[2, 2]'),
    floats('[2, 1]'),
    floats('[2, 1]'),
    floats('[2]'),
  ],
  'SquashedGaussian.backward': [
    stream,
    floats('[2, 2]'),
    floats('[2, 2]'),
    floats('[2, 1]'),
    floats('[2, 1]'),
    floats('[2]'),
    maybe(real(0, 1)),
  ],
  'Mlp.initialize': [whole(0, 9)],
  'Mlp.over': [floats('[13]')],
  'Mlp.workspace': [device, whole(1, 4), record({}, { backward: flag })],
  'Mlp.onHost': [array('Float32Array', 13)],
  'Mlp.forward': [stream, parameters, floats('[2, 2]'), one('w.workspace')],
  'Mlp.backward': [
    stream,
    parameters,
    floats('[2, 2]'),
    one('w.workspace'),
    either(parameters, one('null')),
    maybe(floats('[2, 2]')),
  ],
  conv2d: [
    image,
    whole(1, 3),
    record(
      { kernel: either(whole(1, 3), tuple(whole(1, 2), whole(1, 3))) },
      { stride: whole(1, 2), padding: whole(0, 2) },
    ),
  ],
  dueling: [whole(1, 4), maybe(record({}, { atoms: whole(2, 4) }))],
  expectation: [whole(1, 4), record({ atoms: whole(2, 4), min: real(-2, 0), max: real(0, 2) })],
  linear: [whole(1, 4), whole(1, 4)],
  layerNorm: [whole(1, 4), maybe(record({}, { epsilon: real(0, 1) }))],
  firstNonFinite: [device, one('() => {}', '(s) => s.fill(w.tensor, NaN)')],
};
