/**
 * Cases of whole updates by learners: losses, gradients, norms, scalars and parameters after each
 * step.
 */

import { maskWords, packMasks } from '../../src/base/mask-bits.ts';
import type { Adam, EventRecord, Learner, LearnerState } from '../../src/entries/learner.ts';
import type { Tensor } from '../../src/index.ts';
import { Difference, sameList } from './differences.ts';
import { Bench, type Numbers } from './layers.ts';
import { type Config, MASKED, makers } from './update-learners.ts';

type Floats = Tensor<'float32'>;

interface Event {
  optimizer: string;
  loss: number;
  grad_norm: number;
  grad_norm_after_clip?: number;
  grads: Readonly<Record<string, number[]>>;
}
interface Step {
  batch: Readonly<Record<string, Numbers>>;
  noise: Readonly<Record<string, Numbers>>;
  target_update?: boolean;
  expect: {
    events: Event[];
    scalars?: Readonly<Record<string, number>>;
    params: Readonly<Record<string, number[]>>;
    aux?: Readonly<Record<string, unknown>>;
  };
}
export interface UpdateCase {
  id: string;
  kind: string;
  config: Readonly<Record<string, unknown>>;
  layout: Readonly<Record<string, { name: string; shape: number[]; offset: number }[]>>;
  init: Readonly<Record<string, number[]>>;
  steps: Step[];
}

/**
 * Absolute tolerance of parameters, and tolerance of all other values relative to the largest one.
 */
const PARAMETERS = 5e-6;
const PART = 2e-5;

function compare(
  what: string,
  got: ArrayLike<number>,
  wanted: ArrayLike<number>,
  tolerance?: number,
): void {
  const most = Array.from(wanted).reduce((least, value) => Math.max(least, Math.abs(value)), 1e-30);
  sameList(what, got, wanted, { tolerance: () => tolerance ?? PART * most });
}

/** Returns where a learner's state has the vector that the file calls `name`. */
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
 * Returns the file's numbers in the learner's order. The orders differ only for the two last layers
 * of the file, of the mean and of the deviation. The learner has one layer, whose rows are first
 * those of the mean, then those of the deviation.
 */
export function inOrder(layout: UpdateCase['layout'][string], flat: readonly number[]): number[] {
  const part = ({ shape, offset }: { shape: number[]; offset: number }) =>
    flat.slice(offset, offset + shape.reduce((a, b) => a * b, 1));
  const last = layout.slice(-4);
  if (last.length < 4 || !/^(fc_logstd|log_std)\./.test(last[2]?.name ?? '')) return [...flat];
  const [mean, meanBias, deviation, deviationBias] = last as [
    (typeof last)[0],
    (typeof last)[0],
    (typeof last)[0],
    (typeof last)[0],
  ];
  const before = layout.slice(0, -4).flatMap(part);
  return [...before, ...part(mean), ...part(deviation), ...part(meanBias), ...part(deviationBias)];
}

const layoutOf = ({ layout }: UpdateCase, name: string) =>
  layout[name.startsWith('actor') ? 'actor' : 'q'] ?? [];

/** Returns the state with the file's initial numbers. */
function begun(golden: UpdateCase, state: LearnerState): LearnerState {
  const next: Record<string, LearnerState[string]> = { ...state };
  for (const [name, flat] of Object.entries(golden.init)) {
    if (name === 'log_alpha') {
      // A fixed temperature is an option of the learner, not part of its state.
      if (state.logAlpha)
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
    if (at !== ordered.length)
      throw new Difference(`${name} has ${ordered.length} numbers, the learner ${at}`);
  }
  return next;
}

/** Returns the numbers of a network from a state, as one vector. */
const vector = (state: LearnerState, place: string): number[] =>
  Object.entries(state).flatMap(([key, { data }]) =>
    key.startsWith(`${place}.`) ? Array.from(data, Number) : [],
  );

const fields: Readonly<Record<string, string>> = {
  next_obs: 'nextObs',
  critic_obs: 'criticObs',
  next_critic_obs: 'nextCriticObs',
  next_action_mask: 'nextActionMask',
};

/** Returns the file's events with the learner's names: actor.0, alpha.0, actor.1, … */
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
  form: MaskForm,
): Promise<void> {
  const { stream } = bench;
  const rows = batch.obs!.shape[0]!;
  const columns: Record<string, Floats> = {};
  for (const [name, numbers] of Object.entries(batch))
    columns[fields[name] ?? name] = columnOf(bench, name, numbers, form);
  if (columns.discounts) {
    const { discounts, dones } = batch as Record<'discounts' | 'dones', Numbers>;
    columns.discounts = bench.floats(
      [rows],
      discounts.data.map((discount, i) => discount * (1 - dones.data[i]!)),
    );
  }
  if (batch.n_steps) {
    const {
      n_steps: steps,
      dones,
      truncated,
    } = batch as Record<'n_steps' | 'dones' | 'truncated', Numbers>;
    const gamma = golden.config.gamma as number;
    const goesOn = (i: number) => Math.min(1, 1 - dones.data[i]! + (truncated?.data[i] ?? 0));
    columns.discounts = bench.floats(
      [rows],
      steps.data.map((n, i) => gamma ** n * goesOn(i)),
    );
    delete columns.n_steps;
  }
  columns.truncated ??= bench.floats([rows]);
  const draws = Object.fromEntries(
    Object.values(noise).map((numbers, i) => [
      learner.draws[i]?.name ?? `draw ${i}`,
      bench.of(numbers),
    ]),
  );
  const events = eventsOf(expect.events);
  if (!events.some(([name]) => name === 'q'))
    throw new Difference('the file tells no event of the critics');
  const record: Record<string, Required<EventRecord>> = {};
  for (const [name, { grads }] of events) {
    const size = Object.values(grads).reduce((sum, { length }) => sum + length, 0);
    record[name] = {
      loss: bench.floats([1]),
      norm: bench.floats([1]),
      gradient: bench.floats([size]),
    };
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
  await checkClipped(learner, expect.events);
  const state = await learner.state();
  const networks = Object.keys(golden.init).filter((name) => name !== 'log_alpha');
  for (const name of networks)
    if (!expect.params[name])
      throw new Difference(`the file does not say what ${name} is after the update`);
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
    const wanted = expect.scalars?.[name];
    if (wanted !== undefined && got !== undefined) compare(name, [got], [wanted]);
  }
  const statistics = {
    norm_mean: state['normaliser.mean'],
    norm_var: state['normaliser.variance'],
  };
  for (const [name, entry] of Object.entries(statistics)) {
    const wanted = expect.aux?.[name] as Numbers | number[] | undefined;
    if (wanted && entry)
      compare(name, Array.from(entry.data, Number), Array.isArray(wanted) ? wanted : wanted.data);
  }
}

/**
 * Compares norms after clipping, for each optimizer's last event. Parameters alone would not show
 * an error, because Adam's steps hardly depend on a gradient's length.
 */
async function checkClipped(learner: Learner, events: readonly Event[]): Promise<void> {
  const of = learner as Partial<Record<'optimizer' | 'criticOptimizer' | 'actorOptimizer', Adam>>;
  const optimizers: Record<string, Adam | undefined> = {
    q: of.optimizer ?? of.criticOptimizer,
    actor: of.actorOptimizer,
  };
  for (const { optimizer, grad_norm, grad_norm_after_clip: wanted } of new Map(
    events.map((event) => [event.optimizer, event]),
  ).values()) {
    const adam = optimizers[optimizer];
    if (!adam || wanted === undefined) continue;
    const [factor] = await adam.clip.toArray();
    compare(`${optimizer}: grad_norm_after_clip`, [grad_norm * (factor as number)], [wanted]);
  }
}

/** Dtypes of a mask: one element for each action, or bits. */
export const maskForms = ['float32', 'bool', 'uint32'] as const;
export type MaskForm = (typeof maskForms)[number];

/** Returns a column of the file. A mask has the dtype `form`. */
export function columnOf(bench: Bench, name: string, numbers: Numbers, form: MaskForm): Floats {
  if (name !== 'next_action_mask' || form === 'float32') return bench.of(numbers);
  const [rows, n] = numbers.shape as [number, number];
  const bytes = Uint8Array.from(numbers.data);
  const shape = form === 'bool' ? [rows, n] : [rows, maskWords(n)];
  const mask = bench.keep(bench.device.allocate({ shape, dtype: form }));
  mask.write(form === 'bool' ? bytes : packMasks(bytes, n));
  return mask as never;
}

/** Checks a case by the built-in learner of its kind. */
export async function checkUpdate(golden: UpdateCase, form: MaskForm = 'float32'): Promise<void> {
  using bench = new Bench();
  const make = makers[golden.kind];
  if (!make) throw new Difference(`there is no learner for '${golden.kind}'`);
  const learner = bench.keep(make(bench.device, golden, golden.config as unknown as Config));
  learner.loadState(begun(golden, await learner.state()));
  if (golden.steps.length === 0) throw new Difference('the file has no steps');
  for (const [i, step] of golden.steps.entries()) {
    try {
      await checkStep(bench, golden, learner, step, form);
    } catch (error) {
      if (error instanceof Difference) throw new Difference(`step ${i}: ${error.message}`);
      throw error;
    }
  }
}
/** Kinds that only a built-in learner checks. */
export const updateKinds = Object.keys(makers).filter((kind) => kind !== MASKED);
