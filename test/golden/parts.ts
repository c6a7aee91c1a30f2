/**
 * Cases of the parts of learners: squashed Gaussians, distributions over atoms, optimizers,
 * normalizers.
 */

import {
  Adam,
  expectation,
  type GaussianOptions,
  Normalizer,
  type NormalizerOptions,
  ops,
  SquashedGaussian,
} from '../../src/entries/learner.ts';
import type { Tensor } from '../../src/index.ts';
import { Difference, same, sameList } from './differences.ts';
import { Bench, compare, counted, type LayerCase, type Numbers } from './layers.ts';

type Floats = Tensor<'float32'>;
type Config = Readonly<Record<string, unknown>>;

/** The learner's name for each correction of the file. */
export const corrections: Readonly<Record<string, GaussianOptions['correction']>> = {
  'log(action_scale * (1 - y^2) + 1e-6)': 'scaled',
  'log(1 - y^2 + 1e-6)': 'unscaled',
  'log(1 - y^2 + 1e-6) + log(action_scale + 1e-6)': 'split',
  '2 * (log 2 - u - softplus(-2 u))': 'exact',
};

const filled = (n: number, value: number): Numbers => ({
  shape: [n],
  data: new Array<number>(n).fill(value),
});

export async function checkGaussian({ id, config, inputs, outputs }: LayerCase): Promise<void> {
  using bench = new Bench();
  const { device, stream } = bench;
  const told = config as Config;
  const [rows, n] = inputs.mean!.shape as [number, number];
  const { data: scale } = inputs.action_scale ?? filled(n, 1);
  const { data: bias } = inputs.action_bias ?? filled(n, 0);
  const correction = corrections[String(told.correction)];
  if (!correction) throw new Difference(`the file's correction '${told.correction}' is unknown`);
  const how = { actionDim: n, rows };
  const options: GaussianOptions = {
    actionLow: bias.map((middle, j) => middle - scale[j]!),
    actionHigh: bias.map((middle, j) => middle + scale[j]!),
    logStd: {
      form: told.log_std as 'tanh' | 'clamp',
      min: told.log_std_min as number,
      max: told.log_std_max as number,
    },
    correction,
  };
  if (told.mean_clamp !== undefined) options.meanClamp = told.mean_clamp as number;
  const gaussian = bench.keep(new SquashedGaussian(device, how, options));
  const out = bench.floats([rows, 2 * n]);
  ops.concat(stream, out, [bench.of(inputs.mean), bench.of(inputs.log_std_raw)]);
  const [noise, action, logProb, dOut] = [
    bench.of(inputs.eps),
    bench.floats([rows, n]),
    bench.floats([rows]),
    bench.floats([rows, 2 * n]),
  ];
  gaussian.sample(stream, out, noise, action, logProb);
  await compare('action', action, outputs.action, 4e-6);
  const { min, max } = options.logStd!;
  const logStd = await logStdOf(bench, options, inputs).toArray();
  const span = Math.max(Math.abs(min!), Math.abs(max!));
  sameList('log_std', logStd, (outputs.log_std as Numbers).data, { tolerance: () => 4e-7 * span });
  // In these cases some actions are at the ends of their range, where float32 cannot represent the
  // file's float64 results. So only actions and log_std are compared.
  if (id.includes('.far')) return;
  // The file's softplus form has only the term of tanh. The log-probability of a box also has the
  // term of its scale.
  if (correction === 'exact') {
    const logScale = scale.reduce((sum, factor) => sum + Math.log(factor), 0);
    ops.add(stream, logProb, logProb, bench.floats([], [logScale]));
  }
  await compare('log_prob', logProb, outputs.log_prob, 4e-6);
  gaussian.backward(
    stream,
    dOut,
    out,
    noise,
    bench.of(inputs.upstream_action),
    bench.of(inputs.upstream_log_prob),
  );
  const half = (offset: number) => {
    const copy = bench.floats([rows, n]);
    ops.convert(stream, copy, dOut.view({ shape: [rows, n], offset, strides: [2 * n, 1] }));
    return copy;
  };
  await compare('grad_mean', half(0), outputs.grad_mean, 2e-5);
  await compare('grad_log_std_raw', half(n), outputs.grad_log_std_raw, 2e-5);
}

/**
 * Returns the log of the standard deviation as actions use it: clamped, or squashed by tanh with a
 * user's ops.
 */
function logStdOf(bench: Bench, { logStd }: GaussianOptions, inputs: LayerCase['inputs']): Floats {
  const { form, min, max } = logStd!;
  const raw = bench.of(inputs.log_std_raw);
  const out = bench.floats(raw.shape as number[]);
  if (form === 'clamp') {
    ops.clamp(bench.stream, out, raw, min!, max!);
    return out;
  }
  ops.tanh(bench.stream, out, raw);
  const half = (max! - min!) / 2;
  ops.mul(bench.stream, out, out, bench.floats([], [half]));
  ops.add(bench.stream, out, out, bench.floats([], [min! + half]));
  return out;
}

export async function checkC51({ config, inputs, outputs }: LayerCase): Promise<void> {
  using bench = new Bench();
  const { stream } = bench;
  const [atoms, low, high] = [config.atoms!, config.v_min!, config.v_max!];
  const [rows] = inputs.logits!.shape as [number, number];
  const column = (numbers: Numbers | undefined) => bench.of(numbers).view({ shape: [rows, 1] });
  const support = Array.from({ length: atoms }, (_, i) => low + (i * (high - low)) / (atoms - 1));
  await compare('support', bench.floats([atoms], support), outputs.support);
  const [probs, projected, mean, discounts] = [
    bench.floats([rows, atoms]),
    bench.floats([rows, atoms]),
    bench.floats([rows, 1]),
    bench.floats([rows, 1]),
  ];
  ops.softmax(stream, probs, bench.of(inputs.next_logits));
  await compare('next_probs', probs, outputs.next_probs);
  ops.mul(stream, discounts, column(inputs.bootstrap), column(inputs.discount));
  stream.launch('categorical_project', {
    tensors: [projected, mean, probs, column(inputs.rewards), discounts, bench.floats([1])],
    wholes: [rows, atoms, 1, 1, 0, rows, rows, 1],
    reals: [low, high],
  });
  await compare('projected', projected, outputs.projected, 1e-5);
  await compare('value', mean, outputs.value, 1e-5);
  const sums = bench.floats([rows]);
  ops.sum(stream, sums, projected);
  await compare('projected_sum', sums, outputs.projected_sum);
  const [logits, d, terms, off, loss] = [
    bench.of(inputs.logits),
    bench.floats([rows, atoms]),
    bench.floats([rows, 2]),
    bench.floats([rows, 1]),
    bench.floats([1]),
  ];
  for (const [floor, ending] of [
    [-1e30, ''],
    [-30, '_clamped'],
  ] as const) {
    stream.launch('categorical_loss', {
      tensors: [
        d,
        terms,
        off,
        logits,
        bench.of(outputs.projected as Numbers),
        bench.floats([1], [1]),
      ],
      wholes: [rows, atoms, atoms, 1, atoms, 0, rows, 1],
      reals: [floor, 1 / rows, low, high],
    });
    if (ending === '') await compare('loss_rows', off, outputs.loss_rows);
    ops.mean(stream, loss, off.view({ shape: [rows] }));
    await compare(`loss${ending}`, loss, outputs[`loss${ending}`]);
    await compare(`grad_logits${ending}`, d, outputs[`grad_logits${ending}`]);
  }
  const layer = expectation(1, { atoms, min: low, max: high });
  layer.forward(stream, { parameters: [], x: logits, y: mean, kept: undefined });
  await compare('q_value', mean, outputs.q_value, 1e-5);
  const dy = bench.floats([rows, 1], new Array(rows).fill(1 / rows));
  layer.backward(stream, {
    parameters: [],
    x: logits,
    y: mean,
    kept: undefined,
    dy,
    dx: d,
    gradients: [],
    scratch: undefined,
  });
  await compare('grad_logits_of_mean_q_value', d, outputs.grad_logits_of_mean_q_value, 1e-5);
}

export async function checkOptimizer({ config, inputs, outputs }: LayerCase): Promise<void> {
  using bench = new Bench();
  const told = config as Config;
  const [beta1, beta2] = told.betas as [number, number];
  const parameters = bench.of(inputs.param);
  const adam = bench.keep(
    new Adam(bench.device, parameters, {
      learningRate: told.lr as number,
      beta1,
      beta2,
      epsilon: told.eps as number,
      weightDecay: told.weight_decay as number,
      decoupled: told.decoupled as boolean,
    }),
  );
  for (const k of counted(inputs, 'grad')) {
    adam.step(bench.stream, bench.of(inputs[`grad_${k}`]));
    await compare(`param_${k}`, parameters, outputs[`param_${k}`]);
    await compare(`exp_avg_${k}`, adam.mean, outputs[`exp_avg_${k}`]);
    await compare(`exp_avg_sq_${k}`, adam.spread, outputs[`exp_avg_sq_${k}`]);
  }
}

const checkNormalizer =
  (optionsOf: (config: Readonly<Record<string, number>>) => NormalizerOptions) =>
  async ({ config, inputs, outputs }: LayerCase): Promise<void> => {
    using bench = new Bench();
    const { device, stream } = bench;
    const size = inputs.probe!.shape[1]!;
    const rows = Math.max(...Object.values(inputs).map(({ shape }) => shape[0]!));
    const normalizer = bench.keep(new Normalizer(device, { size, rows }, optionsOf(config)));
    const probe = bench.of(inputs.probe);
    for (const k of counted(inputs, 'batch')) {
      const x = bench.of(inputs[`batch_${k}`]);
      normalizer.update(stream, x);
      await compare(`mean_${k}`, normalizer.mean, outputs[`mean_${k}`], 1e-5);
      await compare(`var_${k}`, normalizer.variance, outputs[`var_${k}`], 1e-5);
      const [count] = await normalizer.count.toArray();
      same(`count_${k}`, Number(count), Math.floor(outputs[`count_${k}`] as number));
      const into = (from: Floats) => {
        const out = bench.floats(from.shape as number[]);
        normalizer.apply(stream, out, from);
        return out;
      };
      await compare(`normalized_${k}`, into(x), outputs[`normalized_${k}`], 1e-5);
      await compare(`probe_${k}`, into(probe), outputs[`probe_${k}`], 1e-5);
      if (outputs[`std_${k}`] === undefined) continue;
      const std = bench.floats([size]);
      ops.sqrt(stream, std, normalizer.variance);
      await compare(`std_${k}`, std, outputs[`std_${k}`], 1e-5);
    }
  };
export const checkEmpirical = checkNormalizer(({ eps }) => ({
  form: 'deviation',
  epsilon: eps as number,
}));
export const checkRunning = checkNormalizer(({ epsilon, clip }) => ({
  epsilon: epsilon as number,
  clip: clip as number,
}));
