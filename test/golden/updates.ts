/** Cases of whole updates, through the learners: losses, gradients, norms, scalars and parameters after each step. */
import type { Device, Tensor } from '../../src/index.ts';
import {
  type ActorCriticOptions,
  type AdamOptions,
  DqnLearner,
  type EventRecord,
  type Learner,
  type LearnerState,
  SacLearner,
  Td3Learner,
} from '../../src/learner/index.ts';
import { Difference, sameList } from './differences.ts';
import { Bench, type Numbers } from './layers.ts';

type Floats = Tensor<'float32'>;

interface Event {
  optimizer: string;
  loss: number;
  grad_norm: number;
  grads: Readonly<Record<string, number[]>>;
}
interface Step {
  batch: Readonly<Record<string, Numbers>>;
  noise: Readonly<Record<string, Numbers>>;
  expect: { events: Event[]; scalars: Readonly<Record<string, number>>; params: Readonly<Record<string, number[]>> };
}
export interface UpdateCase {
  id: string;
  kind: string;
  config: Readonly<Record<string, unknown>>;
  layout: Readonly<Record<string, { name: string; shape: number[]; offset: number }[]>>;
  init: Readonly<Record<string, number[]>>;
  steps: Step[];
}

/** Absolute, of parameters; of the tensor's largest, of everything else. */
const PARAMETERS = 5e-6;
const PART = 2e-5;

function compare(what: string, got: ArrayLike<number>, wanted: ArrayLike<number>, tolerance?: number): void {
  const most = Array.from(wanted).reduce((least, value) => Math.max(least, Math.abs(value)), 1e-30);
  sameList(what, got, wanted, { tolerance: () => tolerance ?? PART * most });
}

/** Where the file's vectors lie in a learner's state. */
function placesOf(name: string): string {
  const critic = /^q(\d+)(_target)?$/.exec(name);
  if (critic) return `${critic[2] ? 'targets' : 'critics'}.${Number(critic[1]) - 1}`;
  const known: Record<string, string> = {
    q: 'online',
    q_target: 'target',
    actor: 'actor',
    actor_target: 'targetActor',
  };
  const place = known[name];
  if (!place) throw new Difference(`the file has a network '${name}'`);
  return place;
}

/**
 * The file's tensors in the learner's order: as they are, but that what it has as two last layers, the mean's and the deviation's,
 * is one, with the halves of its rows.
 */
function inOrder(layout: UpdateCase['layout'][string], flat: readonly number[]): number[] {
  const part = ({ shape, offset }: { shape: number[]; offset: number }) =>
    flat.slice(offset, offset + shape.reduce((a, b) => a * b, 1));
  const last = layout.slice(-4);
  if (last.length < 4 || !last[2]?.name.startsWith('fc_logstd')) return [...flat];
  const [mean, meanBias, deviation, deviationBias] = last as [
    (typeof last)[0],
    (typeof last)[0],
    (typeof last)[0],
    (typeof last)[0],
  ];
  const before = layout.slice(0, -4).flatMap(part);
  return [...before, ...part(mean), ...part(deviation), ...part(meanBias), ...part(deviationBias)];
}

const layoutOf = ({ layout }: UpdateCase, name: string) => layout[name.startsWith('actor') ? 'actor' : 'q'] ?? [];

/** The state with the file's numbers put in. */
function begun(golden: UpdateCase, state: LearnerState): LearnerState {
  const next: Record<string, LearnerState[string]> = { ...state };
  for (const [name, flat] of Object.entries(golden.init)) {
    if (name === 'log_alpha') {
      next.logAlpha = { dtype: 'float32', shape: [1], data: Float32Array.from(flat) };
      continue;
    }
    const place = placesOf(name);
    const ordered = inOrder(layoutOf(golden, name), flat);
    let at = 0;
    for (const [key, entry] of Object.entries(state)) {
      if (!key.startsWith(`${place}.`)) continue;
      const data = Float32Array.from(ordered.slice(at, at + entry.data.length));
      at += entry.data.length;
      next[key] = { ...entry, data };
    }
    if (at !== ordered.length) throw new Difference(`${name} has ${ordered.length} numbers, the learner ${at}`);
  }
  return next;
}

/** A network's numbers out of a state. */
const vector = (state: LearnerState, place: string): number[] =>
  Object.entries(state).flatMap(([key, { data }]) => (key.startsWith(`${place}.`) ? Array.from(data, Number) : []));

type Config = Readonly<Record<string, number>> & {
  optimizer: { betas: [number, number]; eps: number; weight_decay: number; kind: string };
};

function adamOf({ optimizer }: Config, learningRate: number | undefined): AdamOptions {
  const { betas, eps, weight_decay: weightDecay, kind } = optimizer;
  return {
    learningRate: learningRate as number,
    beta1: betas[0],
    beta2: betas[1],
    epsilon: eps,
    weightDecay,
    decoupled: kind === 'adamw',
  };
}

function hiddenOf(golden: UpdateCase, which: 'actor' | 'q'): number[] {
  const weights = (golden.layout[which] ?? []).filter(({ shape }) => shape.length === 2);
  const heads = weights.some(({ name }) => name.startsWith('fc_logstd')) ? 2 : 1;
  return weights.slice(0, weights.length - heads).map(({ shape }) => shape[0] as number);
}

function common(golden: UpdateCase, config: Config): ActorCriticOptions {
  const { actor_lr, critic_lr, lr, policy_lr, q_lr, max_grad_norm: most, weight_decay } = config;
  const critics = Object.keys(golden.init).filter((name) => /^q\d+$/.test(name)).length;
  const clips = most !== undefined && most > 0 && !(golden.kind === 'update.fast_td3' && !(weight_decay! > 0));
  const options: ActorCriticOptions = {
    ...{
      obsDim: config.obs!,
      actionDim: config.act!,
      batchSize: config.batch!,
      gamma: config.gamma!,
      tau: config.tau!,
      critics,
    },
    ...{ actorHidden: hiddenOf(golden, 'actor'), criticHidden: hiddenOf(golden, 'q') },
    ...(config.critic_obs !== undefined && { criticObsDim: config.critic_obs }),
    ...(config.action_low !== undefined && { actionLow: config.action_low }),
    ...(config.action_high !== undefined && { actionHigh: config.action_high }),
    ...(config.atoms !== undefined && {
      critic: { kind: 'categorical' as const, atoms: config.atoms, min: config.v_min!, max: config.v_max! },
    }),
    actorOptimiser: adamOf(config, actor_lr ?? policy_lr ?? lr),
    criticOptimiser: adamOf(config, critic_lr ?? q_lr ?? lr),
    ...(clips && { maxGradNorm: most }),
    actorEvery: config.policy_frequency!,
    firstUpdate: config.first_step ?? 0,
  };
  return options;
}

const makers: Readonly<Record<string, (device: Device, golden: UpdateCase, config: Config) => Learner>> = {
  'update.dqn': (device, golden, config) =>
    new DqnLearner(device, {
      ...{ obsDim: config.obs!, actions: config.actions!, hidden: hiddenOf(golden, 'q'), batchSize: config.batch! },
      ...{ double: Boolean(config.double), tau: config.tau!, ...adamOf(config, config.lr) },
      ...(config.per_row_discount ? {} : { gamma: config.gamma! }),
      ...(config.max_grad_norm! > 0 && { maxGradNorm: config.max_grad_norm! }),
    }),
  'update.td3': (device, golden, config) =>
    new Td3Learner(device, {
      ...common(golden, config),
      ...{ policyNoise: config.policy_noise!, noiseClip: config.noise_clip! },
    }),
  'update.sac': (device, golden, config) =>
    new SacLearner(device, {
      ...common(golden, config),
      logStd: { form: 'tanh', min: config.log_std_min!, max: config.log_std_max! },
      ...{ policyRepeats: config.policy_frequency!, targetEvery: config.target_network_frequency! },
      ...(config.autotune
        ? { temperature: 'auto', targetEntropy: config.target_entropy! }
        : { temperature: config.alpha ?? Math.exp(config.log_alpha_init!) }),
    }),
  'update.fast_sac': (device, golden, config) =>
    new SacLearner(device, {
      ...common(golden, config),
      ...{ layerNorm: Boolean(config.layer_norm), activation: 'silu', meanClamp: 10, correction: 'split' },
      logStd: { form: 'tanh', min: config.log_std_min!, max: config.log_std_max! },
      ...(config.autotune
        ? { temperature: 'auto', targetEntropy: -config.act! * config.target_entropy_ratio! }
        : { temperature: Math.exp(config.log_alpha_init!) }),
      temperatureOptimiser: { ...adamOf(config, config.alpha_lr), weightDecay: 0 },
    }),
  'update.fast_td3': (device, golden, config) =>
    new Td3Learner(device, {
      ...common(golden, config),
      ...{ policyNoise: config.policy_noise!, noiseClip: config.noise_clip!, targetActor: false, targetEvery: 1 },
      clippedDouble: Boolean(config.use_cdq),
      ...(config.obs_normalization && { normaliser: { form: 'deviation' as const, epsilon: config.norm_eps! } }),
    }),
  'update.fast_td3_own': (device, golden, config) =>
    new Td3Learner(device, {
      ...common(golden, { ...config, first_step: config.first_step ?? config.first_update ?? 0 } as unknown as Config),
      ...{ policyNoise: config.policy_noise!, noiseClip: config.noise_clip!, targetActor: false, targetEvery: 1 },
      clippedDouble: Boolean(config.use_cdq),
      gamma: config.gamma! ** (config.n_steps ?? 1),
    }),
};

const fields: Readonly<Record<string, string>> = {
  next_obs: 'nextObs',
  critic_obs: 'criticObs',
  next_critic_obs: 'nextCriticObs',
};

/** The file's events by the learner's names: actor.0, alpha.0, actor.1, … */
function eventsOf(events: readonly Event[]): [string, Event][] {
  const seen: Record<string, number> = {};
  return events.map((event) => {
    if (event.optimizer === 'q') return ['q', event];
    const turn = seen[event.optimizer] ?? 0;
    seen[event.optimizer] = turn + 1;
    return [`${event.optimizer}.${turn}`, event];
  });
}

async function checkStep(
  bench: Bench,
  golden: UpdateCase,
  learner: Learner,
  { batch, noise, expect }: Step,
): Promise<void> {
  const { stream } = bench;
  const rows = batch.obs!.shape[0]!;
  const columns: Record<string, Floats> = {};
  for (const [name, numbers] of Object.entries(batch)) columns[fields[name] ?? name] = bench.of(numbers);
  if (columns.discounts) {
    const { discounts, dones } = batch as Record<'discounts' | 'dones', Numbers>;
    columns.discounts = bench.floats(
      [rows],
      discounts.data.map((discount, i) => discount * (1 - dones.data[i]!)),
    );
  }
  columns.truncated ??= bench.floats([rows]);
  const draws = Object.fromEntries(
    Object.values(noise).map((numbers, i) => [learner.draws[i]?.name ?? `draw ${i}`, bench.of(numbers)]),
  );
  const events = eventsOf(expect.events);
  const record: Record<string, Required<EventRecord>> = {};
  for (const [name, { grads }] of events) {
    const size = Object.values(grads).reduce((sum, { length }) => sum + length, 0);
    record[name] = { loss: bench.floats([1]), norm: bench.floats([1]), gradient: bench.floats([size]) };
  }
  const out = bench.floats([learner.scalars.length]);
  learner.update(stream, columns, out, { draws, record });
  for (const [name, { loss, grad_norm: norm, grads }] of events) {
    const got = record[name] as Required<EventRecord>;
    compare(`${name}: loss`, await got.loss.toArray(), [loss]);
    compare(`${name}: grad_norm`, await got.norm.toArray(), [norm]);
    const wanted = Object.entries(grads).flatMap(([key, flat]) =>
      key === 'log_alpha' ? flat : inOrder(layoutOf(golden, key), flat),
    );
    compare(`${name}: grads`, await got.gradient.toArray(), wanted);
  }
  const state = await learner.state();
  for (const [name, flat] of Object.entries(expect.params)) {
    const ordered = inOrder(layoutOf(golden, name), flat);
    compare(`${name} after the update`, vector(state, placesOf(name)), ordered, PARAMETERS);
  }
  const told = await out.toArray();
  const scalar = (name: string) => told[learner.scalars.indexOf(name)];
  const logAlpha = state.logAlpha ? Number(state.logAlpha.data[0]) : undefined;
  const known: Record<string, number | undefined> = {
    alpha: scalar('alpha'),
    log_alpha: logAlpha,
    alpha_loss: scalar('temperatureLoss'),
    policy_entropy: scalar('entropy'),
    norm_count: state['normaliser.count'] && Number(state['normaliser.count'].data[0]),
  };
  for (const [name, got] of Object.entries(known)) {
    const wanted = expect.scalars[name];
    if (wanted !== undefined && got !== undefined) compare(name, [got], [wanted]);
  }
}

export async function checkUpdate(golden: UpdateCase): Promise<void> {
  using bench = new Bench();
  const make = makers[golden.kind];
  if (!make) throw new Difference(`there is no learner for '${golden.kind}'`);
  const learner = bench.keep(make(bench.device, golden, golden.config as unknown as Config));
  learner.loadState(begun(golden, await learner.state()));
  for (const [i, step] of golden.steps.entries()) {
    try {
      await checkStep(bench, golden, learner, step);
    } catch (error) {
      if (error instanceof Difference) throw new Difference(`step ${i}: ${error.message}`);
      throw error;
    }
  }
}
export const updateKinds = Object.keys(makers);
