/**
 * Cases of whole updates by traced learners: losses, gradients, norms and parameters after each
 * optimizer's step.
 */
import { discreteCql } from '../../examples/learners/discrete-cql.ts';
import { iqn } from '../../examples/learners/iqn.ts';
import { maskedDoubleDqn } from '../../examples/learners/masked-double-dqn.ts';
import { munchausenDqn } from '../../examples/learners/munchausen-dqn.ts';
import {
  CqlLearner,
  DiscreteSacLearner,
  type EventRecord,
  IqlLearner,
  type LearnerState,
  QrDqnLearner,
  TqcLearner,
} from '../../src/entries/learner.ts';
import type { TracedLearner } from '../../src/entries/trace.ts';
import type { Device, Tensor } from '../../src/index.ts';
import { Difference, sameList } from './differences.ts';
import { Bench, type Numbers } from './layers.ts';
import { MASKED } from './update-learners.ts';
import {
  checkUpdate,
  columnOf,
  inOrder,
  type MaskForm,
  maskForms,
  type UpdateCase,
} from './updates.ts';

type Floats = Tensor<'float32'>;
type ConfigNumber =
  | 'batch'
  | 'obs'
  | 'actions'
  | 'act'
  | 'gamma'
  | 'tau'
  | 'lr'
  | 'q_lr'
  | 'policy_lr'
  | 'actor_lr'
  | 'v_lr'
  | 'max_grad_norm'
  | 'temperature'
  | 'munchausen'
  | 'clip_low'
  | 'cql_alpha'
  | 'cql_actions'
  | 'cql_temp'
  | 'quantiles'
  | 'critics'
  | 'drop'
  | 'taus'
  | 'target_taus'
  | 'action_taus'
  | 'cosines'
  | 'target_network_frequency'
  | 'first_step'
  | 'target_entropy'
  | 'expectile'
  | 'beta';
interface Config extends Readonly<Record<ConfigNumber, number>> {
  readonly hidden: readonly number[];
  readonly policy: 'gaussian' | 'deterministic';
  readonly importance_sample: boolean;
  readonly backup_entropy: boolean;
  readonly optimizer: { kind: string; betas: [number, number]; eps: number; weight_decay: number };
}

/** How a kind of cases is checked. */
interface TracedKind {
  make(device: Device, config: Config): TracedLearner;
  /** parts of a learner's state that make up each vector of the file, in order */
  readonly vectors: Readonly<Record<string, readonly string[]>>;
  /**
   * the learner's event for each optimizer of the file, and the vectors of its gradient: 'q*' for
   * those of all critics
   */
  readonly events: Readonly<Record<string, readonly [event: string, ...vectors: string[]]>>;
  /** names of the file's noise, in the order of the learner's draws */
  readonly noise?: readonly string[];
}

/** Losses, norms and gradients are compared with this share of the largest value. */
const SHARE = 3e-5;
const PARAMETERS = 5e-6;

const adamOf = ({ optimizer, max_grad_norm: most }: Config, learningRate: number) => ({
  learningRate,
  beta1: optimizer.betas[0],
  beta2: optimizer.betas[1],
  epsilon: optimizer.eps,
  weightDecay: optimizer.weight_decay,
  decoupled: optimizer.kind === 'adamw',
  ...(most > 0 && { maxGradNorm: most }),
});
const dqnOf = (config: Config) => ({
  obsDim: config.obs,
  actions: config.actions,
  hidden: config.hidden,
  gamma: config.gamma,
  tau: config.tau,
});
const traced = (config: Config) => ({
  ...dqnOf(config),
  rows: config.batch,
  optimizer: adamOf(config, config.lr),
});
const boxOf = (config: Config) => ({
  obsDim: config.obs,
  actionDim: config.act,
  actorHidden: config.hidden,
  criticHidden: config.hidden,
  batchSize: config.batch,
  gamma: config.gamma,
  tau: config.tau,
});
const dqnVectors = { q: ['q'], q_target: ['target'] };
const dqnEvents = { q: ['q', 'q'] as [string, string] };
/** A vector of each critic, and of its target. A learner may have fewer critics. */
const critics: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Array.from({ length: 9 }, (_, i) => [
    [`q${i + 1}`, [`critics.${i}`]],
    [`q${i + 1}_target`, [`targets.${i}`]],
  ]).flat() as [string, string[]][],
);

export const tracedKinds: Readonly<Record<string, TracedKind>> = {
  [MASKED]: {
    make: (device, config) => maskedDoubleDqn(device, traced(config)),
    vectors: dqnVectors,
    events: dqnEvents,
  },
  'update.munchausen_dqn': {
    make: (device, config) =>
      munchausenDqn(device, {
        ...traced(config),
        temperature: config.temperature,
        munchausen: config.munchausen,
        clipLow: config.clip_low,
      }),
    vectors: dqnVectors,
    events: dqnEvents,
  },
  'update.discrete_cql': {
    make: (device, config) => discreteCql(device, { ...traced(config), penalty: config.cql_alpha }),
    vectors: dqnVectors,
    events: dqnEvents,
  },
  'update.qr_dqn': {
    make: (device, config) =>
      new QrDqnLearner(device, {
        ...dqnOf(config),
        ...adamOf(config, config.lr),
        batchSize: config.batch,
        quantiles: config.quantiles,
      }),
    vectors: dqnVectors,
    events: dqnEvents,
  },
  'update.iqn': {
    make: (device, config) =>
      iqn(device, {
        ...traced(config),
        taus: config.taus,
        targetTaus: config.target_taus,
        actionTaus: config.action_taus,
        cosines: config.cosines,
      }),
    vectors: { q: ['psi', 'phi', 'f'], q_target: ['psiTarget', 'phiTarget', 'fTarget'] },
    events: dqnEvents,
    noise: ['taus', 'action_taus', 'target_taus'],
  },
  'update.discrete_sac': {
    make: (device, config) =>
      new DiscreteSacLearner(device, {
        ...dqnOf(config),
        batchSize: config.batch,
        targetEvery: config.target_network_frequency,
        firstUpdate: config.first_step,
        targetEntropy: config.target_entropy,
        actorOptimizer: adamOf(config, config.policy_lr),
        criticOptimizer: adamOf(config, config.q_lr),
        temperatureOptimizer: adamOf(config, config.q_lr),
      }),
    vectors: { ...critics, actor: ['actor'], log_alpha: ['logAlpha'] },
    events: {
      q: ['critics', 'q*'],
      actor: ['actor', 'actor'],
      alpha: ['logAlpha', 'log_alpha'],
    },
  },
  'update.tqc': {
    make: (device, config) =>
      new TqcLearner(device, {
        ...boxOf(config),
        critics: config.critics,
        quantiles: config.quantiles,
        drop: config.drop,
        targetEntropy: config.target_entropy,
        actorOptimizer: adamOf(config, config.policy_lr),
        criticOptimizer: adamOf(config, config.q_lr),
        temperatureOptimizer: adamOf(config, config.policy_lr),
      }),
    vectors: { ...critics, actor: ['actor'], log_alpha: ['logAlpha'] },
    events: {
      alpha: ['logAlpha', 'log_alpha'],
      q: ['critics', 'q*'],
      actor: ['actor', 'actor'],
    },
    noise: ['actor', 'next_action'],
  },
  'update.iql': {
    make: (device, config) =>
      new IqlLearner(device, {
        ...boxOf(config),
        expectile: config.expectile,
        beta: config.beta,
        actorKind: config.policy,
        actorOptimizer: adamOf(config, config.actor_lr),
        criticOptimizer: adamOf(config, config.q_lr),
        valueOptimizer: adamOf(config, config.v_lr),
      }),
    vectors: { ...critics, actor: ['logStd', 'actor'], v: ['value'] },
    events: { v: ['value', 'v'], q: ['critics', 'q*'], actor: ['actor', 'actor'] },
  },
  'update.cql': {
    make: (device, config) =>
      new CqlLearner(device, {
        ...boxOf(config),
        sampledActions: config.cql_actions,
        penalty: config.cql_alpha,
        penaltyTemperature: config.cql_temp,
        importanceSampling: config.importance_sample,
        backupEntropy: config.backup_entropy,
        targetEntropy: config.target_entropy,
        actorOptimizer: adamOf(config, config.policy_lr),
        criticOptimizer: adamOf(config, config.q_lr),
        temperatureOptimizer: adamOf(config, config.policy_lr),
      }),
    vectors: {
      ...critics,
      actor: ['actor', 'logStdScale', 'logStdShift'],
      log_alpha: ['logAlpha'],
    },
    events: {
      alpha: ['logAlpha', 'log_alpha'],
      actor: ['actor', 'actor'],
      q1: ['critics', 'q1'],
      q2: ['critics', 'q2'],
    },
    noise: ['actor', 'next_action', 'random_actions', 'current', 'next'],
  },
};

function compare(
  what: string,
  got: ArrayLike<number>,
  wanted: ArrayLike<number>,
  tolerance?: number,
): void {
  const most = Array.from(wanted).reduce((least, value) => Math.max(least, Math.abs(value)), 1e-3);
  sameList(what, got, wanted, { tolerance: () => tolerance ?? SHARE * most });
}

/** Returns the entries of a state that make up a vector of the file, in order. */
function entriesOf(kind: TracedKind, state: LearnerState, name: string): string[] {
  const parts = kind.vectors[name];
  if (!parts) throw new Difference(`the file has a vector '${name}'`);
  const found = parts.flatMap((part) =>
    Object.keys(state).filter((key) => key === part || key.startsWith(`${part}.`)),
  );
  return found;
}

function layoutOf({ layout }: UpdateCase, name: string): UpdateCase['layout'][string] {
  return layout[/^q\d/.test(name) ? 'q' : name.replace(/_target$/, '')] ?? [];
}

function begun(kind: TracedKind, golden: UpdateCase, state: LearnerState): LearnerState {
  const next: Record<string, LearnerState[string]> = { ...state };
  for (const [name, flat] of Object.entries(golden.init)) {
    // A target that the learner does not have would be compared with nothing.
    const ordered = inOrder(layoutOf(golden, name), flat);
    let at = 0;
    for (const key of entriesOf(kind, state, name)) {
      const entry = state[key] as LearnerState[string];
      next[key] = { ...entry, data: Float32Array.from(ordered.slice(at, at + entry.data.length)) };
      at += entry.data.length;
    }
    if (at !== ordered.length)
      throw new Difference(`${name} has ${ordered.length} numbers, the learner ${at}`);
  }
  return next;
}

const fields: Readonly<Record<string, string>> = {
  next_obs: 'nextObs',
  dones: 'terminated',
  next_action_mask: 'nextActionMask',
};

async function checkStep(
  bench: Bench,
  kind: TracedKind,
  golden: UpdateCase,
  learner: TracedLearner,
  { batch, noise, expect }: UpdateCase['steps'][number],
  form: MaskForm,
): Promise<void> {
  const columns: Record<string, Floats> = {};
  for (const [name, numbers] of Object.entries(batch))
    columns[fields[name] ?? name] = columnOf(bench, name, numbers, form);
  const names = kind.noise ?? [];
  const unknown = Object.keys(noise ?? {}).filter((name) => !names.includes(name));
  if (unknown.length > 0 || names.length !== learner.draws.length)
    throw new Difference(
      `the file has noise ${Object.keys(noise ?? {})}, the learner draws ${learner.draws.length}`,
    );
  const draws = Object.fromEntries(
    learner.draws.map(({ name }) => {
      const [distribution, index] = name.split('.') as [string, string];
      const list = names.filter((each) => isUniform(each) === (distribution === 'uniform'));
      return [name, bench.of(noise[list[Number(index)] as string] as Numbers)];
    }),
  );
  const record: Record<string, Required<EventRecord>> = {};
  for (const { optimizer } of expect.events) {
    const event = kind.events[optimizer]?.[0];
    if (!event) throw new Difference(`the file has an optimizer '${optimizer}'`);
    const { size } = learner.optimizer(event).parameters;
    record[event] ??= {
      loss: bench.floats([1]),
      norm: bench.floats([1]),
      gradient: bench.floats([size]),
    };
  }
  const out = bench.floats([learner.scalars.length]);
  learner.update(bench.stream, columns, out, { draws, record });
  const state = await learner.state();
  for (const event of expect.events) await checkEvent(kind, golden, learner, record, event);
  for (const name of Object.keys(golden.init))
    if (!expect.params[name])
      throw new Difference(`the file does not say what ${name} is after the update`);
  for (const [name, flat] of Object.entries(expect.params)) {
    const got = entriesOf(kind, state, name).flatMap((key) =>
      Array.from((state[key] as LearnerState[string]).data, Number),
    );
    compare(`${name} after the update`, got, inOrder(layoutOf(golden, name), flat), PARAMETERS);
  }
}

/** Names of noise that is uniform. All other noise is normal. */
const isUniform = (name: string): boolean => /taus$|^random_actions$/.test(name);

async function checkEvent(
  kind: TracedKind,
  golden: UpdateCase,
  learner: TracedLearner,
  record: Readonly<Record<string, Required<EventRecord>>>,
  event: UpdateCase['steps'][number]['expect']['events'][number],
): Promise<void> {
  const { optimizer, loss, grad_norm: norm, grads, grad_norm_after_clip: clipped } = event;
  const [name, ...vectors] = kind.events[optimizer] as [string, ...string[]];
  const got = record[name] as Required<EventRecord>;
  compare(`${optimizer}: loss`, await got.loss.toArray(), [loss]);
  const gradient = Array.from(await got.gradient.toArray());
  const members = Object.keys(golden.init)
    .filter((each) => /^q\d$/.test(each))
    .sort();
  // An optimizer of the file may step one critic of an ensemble.
  const member = members.indexOf(vectors[0] as string);
  const whole = member < 0 ? gradient.length : gradient.length / members.length;
  const from = Math.max(member, 0) * whole;
  const own = gradient.slice(from, from + whole);
  const wanted = vectors
    .flatMap((each) => (each === 'q*' ? members : each))
    .flatMap((vector) => {
      const flat = (grads as Record<string, number[]>)[vector];
      if (!flat) throw new Difference(`${optimizer}: the file has no gradient of ${vector}`);
      return inOrder(layoutOf(golden, vector), flat);
    });
  compare(`${optimizer}: grads`, own, wanted);
  compare(`${optimizer}: grad_norm`, [Math.hypot(...own)], [norm]);
  if (whole < gradient.length) return;
  compare(`${optimizer}: the recorded norm`, await got.norm.toArray(), [norm]);
  const [factor] = await learner.optimizer(name).clip.toArray();
  compare(`${optimizer}: grad_norm_after_clip`, [norm * (factor as number)], [clipped as number]);
}

/** Checks a case by a traced learner. Cases with masks run once for each form of masks. */
export async function checkTraced(golden: UpdateCase): Promise<void> {
  if (golden.kind !== MASKED) return checkForm(golden, 'float32');
  for (const form of maskForms) {
    await checkForm(golden, form);
    await checkUpdate(golden, form);
  }
}

async function checkForm(golden: UpdateCase, form: MaskForm): Promise<void> {
  using bench = new Bench();
  const kind = tracedKinds[golden.kind] as TracedKind;
  const learner = bench.keep(kind.make(bench.device, golden.config as unknown as Config));
  learner.loadState(begun(kind, golden, await learner.state()));
  if (golden.steps.length === 0) throw new Difference('the file has no steps');
  for (const [i, step] of golden.steps.entries()) {
    try {
      await checkStep(bench, kind, golden, learner, step, form);
    } catch (error) {
      if (error instanceof Difference) throw new Difference(`step ${i}: ${error.message}`);
      throw error;
    }
  }
}
