/**
 * Draws random learners, and compares them with a plain computation in float64 that follows the
 * rules of phases: each term is computed once in a minibatch, in the first phase that needs it, and
 * reads the parameters as they are then. All gradients of a phase are taken before its steps.
 */

import { ownRules, type ProductRules, vendorRules } from '../../../src/device/products.ts';
import { layerNorm, linear, Network, tanh } from '../../../src/entries/learner.ts';
import {
  adam,
  copied,
  describeLearner,
  type Expression,
  ensemble,
  linearSchedule,
  normal,
  parameter,
  polyak,
  sgd,
  TracedLearner,
  uniform,
} from '../../../src/entries/trace.ts';
import { type Device, openDevice, type Tensor } from '../../../src/index.ts';
import type { PlanOptions } from '../../../src/learn/trace/plan/plan.ts';
import { Choices } from '../../expressions/rig.ts';
import { ON_HOST, TESTED } from '../../rig/tested-device.ts';
import {
  applied,
  constant,
  DEEP_SIZE,
  EPSILON,
  HIDDEN,
  INPUTS,
  LINEAR_SIZE,
  Num,
  type OpName,
  OUTPUTS,
  opNames,
  opOf,
  slopesOf,
  type Values,
  withRounding,
} from './terms.ts';

type Floats = Tensor<'float32'>;

const ROWS = 4;
const FIELDS = { obs: [INPUTS], nextObs: [INPUTS], mass: [] } as const;

/** A value of a random learner: an input, parameters, random numbers, an op or a network's outputs. */
interface Term {
  readonly kind: 'field' | 'parameter' | 'draw' | 'network' | 'op';
  /** name of the field, the holder, the kind of draw or the op */
  readonly name: string;
  readonly inputs: readonly Term[];
  readonly shape: readonly number[];
}
/** Parameters: loose ones, a network, an ensemble or a follower. */
interface Holder {
  readonly name: string;
  readonly kind: 'parameter' | 'network' | 'follower';
  readonly shape: readonly number[];
  readonly members: number | null;
  readonly size: number;
  readonly initial: readonly number[];
}
interface Group {
  readonly name: string;
  readonly of: readonly string[];
  readonly kind: 'adam' | 'sgd';
  readonly rate: number;
  /** steps of a linear schedule to 0, or null */
  readonly ramp: number | null;
  readonly momentum: number;
  readonly nesterov: boolean;
  readonly most: number | null;
}
interface FollowerHow {
  readonly name: string;
  readonly of: string;
  readonly tau: number;
  readonly how: 'always' | 'every' | 'with' | 'copied';
  readonly every: number;
  readonly with: string;
}
interface Phase {
  readonly every: number;
  readonly losses: readonly (readonly [group: string, loss: Term])[];
  readonly scalars: readonly (readonly [name: string, value: Term])[];
  readonly priorities: Term | null;
}
/** A random description. */
export interface Drawn {
  readonly seed: number;
  readonly holders: readonly Holder[];
  readonly groups: readonly Group[];
  readonly followers: readonly FollowerHow[];
  /** all terms in program order, also some that nothing needs */
  readonly terms: readonly Term[];
  readonly phases: readonly Phase[];
  /** whether a loss differentiates through parameters that stepped since */
  readonly stale: boolean;
  /** elements between rows of the batch */
  readonly gap: number;
  /** number of the first minibatch */
  readonly first: number;
}

const sizeOf = (shape: readonly number[]): number => shape.reduce((size, n) => size * n, 1);
const MAX_SIZE = 64;

/** Returns the parameters that a term is a view of, or null. */
function memoryOf(term: Term): string | null {
  if (term.kind === 'parameter') return term.name;
  const views = term.kind === 'op' && opOf(term.name as OpName).views;
  return views ? memoryOf(term.inputs[0]!) : null;
}
/** Adds the terms that `roots` need to `order`, unless an earlier phase needs them. */
function enter(order: Map<Term, number>, roots: readonly Term[], phase: number): void {
  const open = [...roots];
  for (let term = open.pop(); term; term = open.pop()) {
    if (order.has(term)) continue;
    order.set(term, phase);
    open.push(...term.inputs);
  }
}

/** Draws a learner. */
export function drawn(seed: number): Drawn {
  const choices = new Choices(seed);
  const terms: Term[] = [];
  const add = (term: Term): Term => {
    terms.push(term);
    return term;
  };
  const holders: Holder[] = [];
  const loose = { a: [], b: [INPUTS], c: [INPUTS, 2] };
  const names = Object.keys(loose).slice(0, 1 + choices.below(3)) as (keyof typeof loose)[];
  for (const name of names) {
    const shape = loose[name];
    const initial = choices.numbers(sizeOf(shape), 0.2, 0.9);
    const size = sizeOf(shape);
    holders.push({ name, kind: 'parameter', shape, members: null, size, initial });
  }
  for (const name of ['q', 'critics'].slice(0, choices.below(3))) {
    const members = name === 'q' ? null : 2;
    const one = choices.chance(0.7) ? DEEP_SIZE : LINEAR_SIZE;
    const size = one * (members ?? 1);
    holders.push({ name, kind: 'network', shape: [one], members, size, initial: [] });
  }
  const stepped = [...holders];
  // Optimizers of one holder or two.
  const groups: Group[] = [];
  for (let left = choices.chance(0.5) ? stepped : [...stepped].reverse(); left.length > 0; ) {
    const of = left.slice(0, choices.chance(0.3) ? 2 : 1).map(({ name }) => name);
    left = left.slice(of.length);
    const kind = choices.chance(0.2) ? 'adam' : 'sgd';
    const momentum = kind === 'sgd' && choices.chance(0.4) ? 0.5 : 0;
    groups.push({
      name: of.length > 1 ? `group${groups.length}` : of[0]!,
      of,
      kind,
      rate: kind === 'adam' ? 0.02 : choices.of([0.1, 0.3]),
      ramp: choices.chance(0.3) ? 4 : null,
      momentum,
      nesterov: momentum > 0 && choices.chance(0.5),
      most: choices.chance(0.4) ? choices.of([0.05, 0.3]) : null,
    });
  }
  const count = 1 + choices.below(3);
  // Each optimizer steps in one phase or more.
  const among = Array.from({ length: count }, () =>
    groups.filter(() => choices.chance(1.2 / count)),
  );
  for (const group of groups)
    if (!among.some((list) => list.includes(group))) choices.of(among).push(group);
  const followers: FollowerHow[] = [];
  for (const source of stepped.filter(({ kind }) => kind === 'network'))
    if (choices.chance(0.7)) {
      const single = groups.filter(
        (group) => among.filter((list) => list.includes(group)).length === 1,
      );
      const how = choices.of(['always', 'every', 'with', 'copied'] as const);
      const name = `${source.name}Target`;
      followers.push({
        name,
        of: source.name,
        tau: choices.of([0.25, 1]),
        how: how === 'with' && single.length === 0 ? 'always' : how,
        every: 2 + choices.below(2),
        with: single.length > 0 ? choices.of(single).name : '',
      });
      holders.push({ ...source, name, kind: 'follower' });
    }

  const leaf = (kind: Term['kind'], name: string, shape: readonly number[]): Term =>
    add({ kind, name, inputs: [], shape });
  const memories = new Map(
    holders.map((holder) => {
      const { name, kind, size, shape } = holder;
      return [name, leaf('parameter', name, kind === 'parameter' ? shape : [size])];
    }),
  );
  const op = (name: OpName, ...inputs: Term[]): Term | null => {
    const sample = inputs.map(({ shape }) => constant(shape, new Float64Array(sizeOf(shape))));
    const made = opOf(name).values(...sample);
    if (!made || made.items.length > MAX_SIZE || made.items.length === 0) return null;
    return add({ kind: 'op', name, inputs, shape: made.shape });
  };
  const pool: Term[] = Object.entries(FIELDS).map(([name, shape]) =>
    leaf('field', name, [ROWS, ...shape]),
  );
  for (const name of names) pool.push(memories.get(name)!);
  const table = memories.get('c');
  const turned = table && choices.chance(0.5) ? op('turn', table) : null;
  /** Returns the mean of a term. One element is its own mean. */
  const mean = (x: Term): Term => op('mean', x) ?? (x.shape.length === 0 ? x : op('reshape', x)!);
  const network = (name: string, x: Term): Term => {
    const { members } = holders.find((each) => each.name === name)!;
    const shape = [...(members ? [members] : []), ...x.shape.slice(0, -1), OUTPUTS];
    return add({ kind: 'network', name, inputs: [x, memories.get(name)!], shape });
  };
  /** Returns another term of the same ops. With depth 0 only the last op is written again. */
  const again = (term: Term, depth: number): Term =>
    term.inputs.length === 0
      ? term
      : add({
          ...term,
          inputs: term.inputs.map((input) => (depth > 0 ? again(input, depth - 1) : input)),
        });
  const any = () => (choices.chance(0.6) ? choices.of(pool.slice(-5)) : choices.of(pool));
  /** Adds an op that reads `x`. */
  const further = (x: Term): Term => {
    for (let attempt = 0; attempt < 20; attempt++) {
      const name = choices.of(opNames);
      if (name === 'times' || name === 'total') continue; // would grow
      if (name === 'detach' && choices.chance(0.5)) continue;
      const made = opOf(name).operands === 1 ? op(name, x) : op(name, x, any());
      if (made) return made;
    }
    return x;
  };
  const wide = () =>
    pool.filter(({ shape }) => [2, 3].includes(shape.length) && shape.at(-1) === INPUTS);
  /** Returns a term with a slope with respect to `name`. */
  const reading = (name: string): Term => {
    let made = memories.get(name)!;
    const fitting = wide();
    if (holders.find((each) => each.name === name)!.kind !== 'parameter')
      made = network(name, choices.chance(0.5) ? choices.of(fitting) : fitting.at(-1)!);
    for (let i = choices.below(3); i > 0; i--) {
      const next = further(made);
      if (next.name !== 'detach') made = next;
    }
    pool.push(made);
    return made;
  };
  /** Returns a sum of parameters times other numbers, whose gradient is these numbers. */
  const weighted = (name: string): Term => {
    const own = reading(name);
    const fitting = [...pool, ...memories.values()].filter(
      (other) => String(other.shape) === String(own.shape),
    );
    const product = op('times', own, op('detach', choices.of(fitting))!)!;
    return op('total', product) ?? mean(product);
  };
  const order = new Map<Term, number>();
  const changes = among.map((list) => new Set(list.flatMap(({ of }) => of)));
  /** Returns whether a loss of a phase differentiates through parameters that stepped since. */
  const isStale = (loss: Term, of: readonly string[], phase: number): boolean => {
    const reached = new Set<Term>(of.map((name) => memories.get(name)!));
    const needed = new Map<Term, number>();
    enter(needed, [loss], 0);
    let found = false;
    for (const term of terms) {
      if (!needed.has(term) || !term.inputs.some((input) => reached.has(input))) continue;
      if (term.kind === 'op' && term.name === 'detach') continue;
      reached.add(term);
      const computed = order.get(term) ?? phase;
      if (memoryOf(term) !== null) continue;
      const read = term.inputs.map(memoryOf);
      found ||= changes
        .slice(computed, phase)
        .some((names) => read.some((name) => name !== null && names.has(name)));
    }
    return found;
  };

  let stale = false;
  let prioritized = false;
  const phases: Phase[] = [];
  for (let p = 0; p < count; p++) {
    if (choices.chance(0.3)) {
      const kind = choices.of(['normal', 'uniform']);
      pool.push(leaf('draw', kind, kind === 'normal' ? [ROWS, INPUTS] : [INPUTS]));
    }
    // A view that needs a copy, which several phases read.
    if (turned) pool.push(further(turned));
    for (let i = 1 + choices.below(3); i > 0; i--) {
      const follower = followers.length > 0 && choices.chance(0.4);
      if (follower) pool.push(network(choices.of(followers).name, choices.of(wide())));
      else if (choices.chance(0.25)) pool.push(again(any(), choices.below(3)));
      else pool.push(further(any()));
    }
    const losses = among[p]!.map(({ name, of }): [string, Term] => {
      const parts = of.map((each) =>
        choices.chance(0.2) ? weighted(each) : mean(op('square', reading(each))!),
      );
      if (choices.chance(0.6)) parts.push(mean(further(any())));
      const loss = parts.reduce((total, part) => op('add', total, part)!);
      if (!isStale(loss, of, p)) return [name, loss];
      // Some losses stay stale, and the learner must refuse them.
      if (choices.chance(0.4)) {
        stale = true;
        return [name, loss];
      }
      return [name, again(loss, Number.POSITIVE_INFINITY)];
    });
    const scalars = Array.from({ length: choices.below(3) }, (_, i): [string, Term] => [
      `s${p}${i}`,
      mean(choices.chance(0.3) ? again(any(), choices.below(2)) : any()),
    ]);
    let priorities: Term | null = null;
    if (!prioritized && choices.chance(0.5)) {
      const rows = pool.filter(({ shape }) => shape.length === 2 && shape[0] === ROWS);
      // Priorities may be a value that other ops read. This choice changes no other one.
      const own = new Choices(seed + 2 ** 20);
      const single = terms.filter(
        ({ kind, shape }) => kind !== 'field' && shape[0] === ROWS && sizeOf(shape) === ROWS,
      );
      const known = single.length > 0 && own.chance(0.6) ? own.of(single) : null;
      priorities = op('sum', choices.of(rows));
      if (known && known.shape.length <= 2) priorities = known;
      prioritized = true;
    }
    enter(order, [...losses, ...scalars].map(([, term]) => term).concat(priorities ?? []), p);
    phases.push({ every: choices.of([1, 1, 2, 3]), losses, scalars, priorities });
  }
  return {
    seed,
    holders,
    groups,
    followers,
    terms,
    phases,
    stale,
    gap: choices.of([0, 0, 2]),
    first: choices.of([0, 0, 1, 6]),
  };
}

/** Returns the description of a learner. */
export function descriptionOf({
  seed,
  first,
  holders,
  groups,
  followers,
  terms,
  phases,
}: Drawn): object {
  const networkOf = ({ shape: [size] }: Holder) =>
    size === LINEAR_SIZE
      ? new Network([linear(INPUTS, OUTPUTS), tanh()])
      : new Network([
          linear(INPUTS, HIDDEN),
          layerNorm(HIDDEN, { epsilon: EPSILON }),
          tanh(),
          linear(HIDDEN, OUTPUTS),
        ]);
  const ofKind = (kind: Holder['kind']) => holders.filter((each) => each.kind === kind);
  return describeLearner({
    name: `random ${seed}`,
    rows: ROWS,
    seed,
    firstUpdate: first,
    batch: FIELDS,
    networks: {
      ...Object.fromEntries(
        ofKind('network').map((holder) => {
          const { name, members } = holder;
          const made = networkOf(holder);
          return [name, members === null ? made : ensemble(made, members)];
        }),
      ),
      ...Object.fromEntries(
        followers.map(({ name, of, tau, how, every, with: phase }) => [
          name,
          how === 'copied'
            ? copied(of, { every })
            : polyak(of, tau, how === 'every' ? { every } : how === 'with' ? { with: phase } : {}),
        ]),
      ),
    },
    parameters: Object.fromEntries(
      ofKind('parameter').map(({ name, shape, initial }) => [name, parameter({ shape, initial })]),
    ),
    optimizers: Object.fromEntries(
      groups.map(({ name, of, kind, rate, ramp, momentum, nesterov, most }) => {
        const learningRate = ramp ? linearSchedule({ from: rate, steps: ramp }) : rate;
        const common = { of, learningRate, ...(most !== null && { maxGradNorm: most }) };
        return [
          name,
          kind === 'adam'
            ? adam({ ...common, epsilon: ADAM_EPSILON })
            : sgd({ ...common, momentum, nesterov }),
        ];
      }),
    ),
    update(networks, batch, parameters) {
      const made = new Map<Term, Expression>();
      const functions = networks as Record<string, (x: Expression) => Expression>;
      for (const term of terms) {
        const inputs = term.inputs.map((input) => made.get(input)!);
        const { kind, name, shape } = term;
        if (kind === 'field') made.set(term, (batch as Record<string, Expression>)[name]!);
        else if (kind === 'draw')
          made.set(term, name === 'normal' ? normal([...shape]) : uniform([...shape]));
        else if (kind === 'network') made.set(term, functions[name]!(inputs[0]!));
        else if (kind === 'op') made.set(term, opOf(name as OpName).make(...inputs));
        else if (name in parameters)
          made.set(term, (parameters as Record<string, Expression>)[name]!);
      }
      const named = (list: readonly (readonly [string, Term])[]) =>
        Object.fromEntries(list.map(([name, term]) => [name, made.get(term)!]));
      return phases.map(({ every, losses, scalars, priorities }) => ({
        every,
        minimize: named(losses),
        scalars: named(scalars),
        ...(priorities && { priorities: made.get(priorities)! }),
      })) as never;
    },
  });
}

const ADAM_EPSILON = 0.01;

type Rows = Readonly<Record<keyof typeof FIELDS, ArrayLike<number>>>;

/** Computes a random learner in float64, by the rules of phases. */
class Plain {
  readonly #drawn: Drawn;
  readonly parameters = new Map<string, Num[]>();
  readonly scalars = new Map<string, number>();
  /** the last loss of each event */
  readonly losses = new Map<string, number>();
  readonly #optimizers = new Map<string, { steps: number; mean: number[]; spread: number[] }>();
  #minibatch: number;

  constructor(given: Drawn, initial: ReadonlyMap<string, ArrayLike<number>>) {
    this.#drawn = given;
    this.#minibatch = given.first;
    for (const [name, values] of initial) this.#set(name, Array.from(values));
    for (const { name } of given.groups)
      this.#optimizers.set(name, { steps: 0, mean: [], spread: [] });
    for (const { scalars } of given.phases) for (const [name] of scalars) this.scalars.set(name, 0);
  }

  #set(name: string, values: readonly number[]): void {
    this.parameters.set(
      name,
      values.map((value) => new Num(value)),
    );
  }

  /** Computes one minibatch. Returns the priorities, or null if it writes none. */
  step(rows: Rows, draws: ReadonlyMap<Term, ArrayLike<number>>): number[] | null {
    const { phases, followers } = this.#drawn;
    const known = new Map<Term, Values>();
    const value = (term: Term): Values => {
      const found = known.get(term) ?? this.#value(term, rows, draws, value);
      // Views of parameters are read anew.
      if (memoryOf(term) === null) known.set(term, found);
      return found;
    };
    const k = this.#minibatch++;
    let written: number[] | null = null;
    const events = eventsOf(this.#drawn);
    for (const [p, { every, losses, scalars, priorities }] of phases.entries()) {
      const ends = losses.map(([, loss]) => value(loss).items[0]!);
      const numbers = scalars.map(([name, term]) => [name, value(term).items[0]!.value] as const);
      const each = priorities && value(priorities).items.map((num) => num.value);
      if (k % every !== 0) continue;
      for (const [name, number] of numbers) this.scalars.set(name, number);
      written = each ?? written;
      ends.forEach((end, i) => {
        this.losses.set(events[p]![i]!, end.value);
      });
      const gradients = losses.map(([name], i) => {
        const slopes = slopesOf(ends[i]!);
        return this.#of(name).map((num) => slopes.get(num) ?? 0);
      });
      losses.forEach(([name], i) => {
        this.#stepOf(name, gradients[i]!);
      });
    }
    for (const { name, of, tau, how, every, with: phase } of followers) {
      const group = this.#drawn.groups.find((each) => each.of.includes(of))!;
      const due = {
        always: () => true,
        every: () => k % every === 0,
        with: () =>
          k % phases.find(({ losses }) => losses.some(([each]) => each === phase))!.every === 0,
        copied: () => this.#optimizers.get(group.name)!.steps % every === 0,
      }[how]();
      const share = how === 'copied' ? 1 : tau;
      const source = this.parameters.get(of)!;
      const old = this.parameters.get(name)!;
      if (due)
        this.#set(
          name,
          source.map((num, i) => share * num.value + (1 - share) * old[i]!.value),
        );
    }
    return written;
  }

  #value(
    term: Term,
    rows: Rows,
    draws: ReadonlyMap<Term, ArrayLike<number>>,
    value: (term: Term) => Values,
  ): Values {
    const { kind, name, shape, inputs } = term;
    if (kind === 'field') return constant(shape, rows[name as keyof Rows]);
    if (kind === 'draw') return constant(shape, draws.get(term)!);
    if (kind === 'parameter') return { shape, items: this.parameters.get(name)! };
    if (kind === 'op') return opOf(name as OpName).values(...inputs.map(value))!;
    const [x, flat] = [value(inputs[0]!), this.parameters.get(name)!];
    const { members, shape: size } = this.#drawn.holders.find((each) => each.name === name)!;
    const items = Array.from({ length: members ?? 1 }, (_, j) =>
      applied(flat.slice(j * size[0]!, (j + 1) * size[0]!), x),
    ).flatMap((each) => each.items);
    return { shape, items };
  }

  /** Returns what an optimizer steps. */
  #of(name: string): Num[] {
    const { of } = this.#drawn.groups.find((each) => each.name === name)!;
    return of.flatMap((each) => this.parameters.get(each)!);
  }

  #stepOf(name: string, gradient: readonly number[]): void {
    const group = this.#drawn.groups.find((each) => each.name === name)!;
    const state = this.#optimizers.get(name)!;
    const { ramp, rate, most, momentum, nesterov } = group;
    const share = ramp ? 1 - Math.min(state.steps / ramp, 1) : 1;
    const norm = Math.sqrt(gradient.reduce((total, g) => total + g * g, 0));
    const clip = most === null ? 1 : Math.min(1, most / (norm + 1e-6));
    const t = ++state.steps;
    const now = this.#of(name).map(({ value }, i) => {
      const g = clip * gradient[i]!;
      if (group.kind === 'sgd') {
        const direction = momentum * (state.mean[i] ?? 0) + g;
        state.mean[i] = direction;
        return value - rate * share * (nesterov ? g + momentum * direction : direction);
      }
      const mean = 0.9 * (state.mean[i] ?? 0) + 0.1 * g;
      const spread = 0.999 * (state.spread[i] ?? 0) + 0.001 * g * g;
      [state.mean[i], state.spread[i]] = [mean, spread];
      const size = Math.sqrt(spread / (1 - 0.999 ** t)) + ADAM_EPSILON;
      return value - (rate * share * (mean / (1 - 0.9 ** t))) / size;
    });
    let at = 0;
    for (const each of group.of) {
      const { length } = this.parameters.get(each)!;
      this.#set(each, now.slice(at, at + length));
      at += length;
    }
  }
}

/** Number of minibatches: a multiple of all periods. */
const COUNT = 6;

/** A learner on the tested device, with batches and the memory of its results. */
class Made {
  readonly learner: TracedLearner;
  readonly #device: Device;
  readonly #open: { close(): void }[] = [];
  readonly out: Floats;
  readonly priorities: Floats;
  readonly #drawn: Drawn;
  readonly #columns: Readonly<Record<string, Floats>>;
  readonly #draws: Readonly<Record<string, Floats>>;
  /** memory of the recorded losses, by event */
  readonly losses: Readonly<Record<string, Floats>>;
  readonly rows: number;

  /** `own` says whether the learner draws its own numbers, and `records` whether updates record losses. */
  constructor(
    given: Drawn,
    rows: number,
    { own, records = false, ...options }: { own: boolean; records?: boolean } & PlanOptions,
  ) {
    this.#drawn = given;
    this.rows = rows;
    this.#device = openDevice(TESTED);
    this.learner = this.#keep(new TracedLearner(this.#device, descriptionOf(given), options));
    this.out = this.#zeros(Math.max(this.learner.scalars.length, 1));
    this.priorities = this.#zeros(rows * ROWS);
    this.#columns = Object.fromEntries(
      Object.entries(FIELDS).map(([name, shape]) => {
        const width = sizeOf(shape);
        const pitch = width + given.gap;
        const whole = this.#zeros(rows * ROWS * pitch);
        const strides = shape.length === 0 ? [pitch] : [pitch, 1];
        return [name, whole.view({ shape: [rows * ROWS, ...shape], strides })];
      }),
    );
    const choices = new Choices(given.seed);
    this.losses = Object.fromEntries(
      eventsOf(given)
        .flat()
        .filter(() => records && choices.chance(0.5))
        .map((event) => [event, this.#zeros(1)]),
    );
    this.#draws = own
      ? {}
      : Object.fromEntries(
          this.learner.draws.map(({ name, shape }) => [name, this.#zeros(rows * sizeOf(shape))]),
        );
  }
  #keep<T extends { close(): void }>(made: T): T {
    this.#open.push(made);
    return made;
  }
  #zeros(size: number): Floats {
    return this.#keep(this.#device.allocate({ shape: [size] }));
  }
  close(): void {
    for (const made of this.#open.splice(0).reverse()) made.close();
  }

  /** Writes minibatches [from, from + rows) of the batches and draws. */
  feed(from: number): void {
    const list = Array.from({ length: this.rows }, (_, i) => fed(this.#drawn, from + i));
    for (const [name, column] of Object.entries(this.#columns)) {
      const width = sizeOf(column.shape.slice(1));
      const pitch = width + this.#drawn.gap;
      const all = new Float32Array(this.rows * ROWS * pitch).fill(7);
      const values = list.flatMap(({ rows }) => Array.from(rows[name as keyof Rows]));
      values.forEach((x, i) => {
        all[Math.floor(i / width) * pitch + (i % width)] = x;
      });
      column.view({ shape: [all.length], strides: [1] }).write(all);
    }
    for (const [name, tensor] of Object.entries(this.#draws)) {
      const term = drawsOf(this.#drawn).get(name)!;
      const values = list.flatMap(({ draws }) => Array.from(draws.get(term)!));
      tensor.write(Float32Array.from(values));
    }
  }
  update(): void {
    const batch = this.#drawn.phases.some(({ priorities }) => priorities)
      ? { ...this.#columns, priorities: this.priorities }
      : this.#columns;
    const record = Object.fromEntries(
      Object.entries(this.losses).map(([event, loss]) => [event, { loss }]),
    );
    const options = { draws: this.#draws, record };
    this.learner.update(this.#device.currentStream, batch, this.out, options);
  }
  /** Captures an update, and returns a function that replays it. */
  captured(): () => void {
    const stream = this.#device.currentStream;
    stream.beginCapture();
    this.update();
    const graph = this.#keep(stream.endCapture());
    const executable = this.#keep(graph.instantiate());
    return () => stream.replay(executable);
  }
  /** Returns the priorities of an update as text, and clears them for the next one. */
  async prioritized(): Promise<string> {
    const values = await this.priorities.toArray();
    this.priorities.write(new Float32Array(values.length));
    return [...values].join();
  }
  /** Returns all parameters and states of optimizers as text. */
  async bits(): Promise<string> {
    const state = await this.learner.state();
    // Replays do not advance a count that nothing reads.
    const { phases, followers } = this.#drawn;
    const counts =
      phases.some(({ every }) => every > 1) || followers.some(({ how }) => how === 'every');
    return Object.entries(state)
      .filter(([name]) => counts || name !== 'updates')
      .map(([name, { data }]) => {
        // All NaN are equal. Parameters that grow without bounds become NaN.
        const { buffer, byteOffset, byteLength } =
          data instanceof Float32Array ? data.map((x) => (Number.isNaN(x) ? Number.NaN : x)) : data;
        return `${name} ${Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength).toString('hex')}`;
      })
      .join('\n');
  }
}

/** Returns the names of each phase's events. */
function eventsOf({ phases }: Drawn): readonly (readonly string[])[] {
  const times = new Map<string, number>();
  return phases.map(({ losses }) =>
    losses.map(([name]) => {
      const before = times.get(name) ?? 0;
      times.set(name, before + 1);
      return before === 0 ? name : `${name}.${before}`;
    }),
  );
}

/** The draws by the names that the learner gives them. */
function drawsOf({ terms }: Drawn): ReadonlyMap<string, Term> {
  const counts = { normal: 0, uniform: 0 };
  return new Map(
    terms
      .filter(({ kind }) => kind === 'draw')
      .map((term) => [`${term.name}.${counts[term.name as keyof typeof counts]++}`, term]),
  );
}

/** Returns the rows and random numbers of minibatch k. */
function fed(given: Drawn, k: number): { rows: Rows; draws: ReadonlyMap<Term, number[]> } {
  const choices = new Choices(1000 * given.seed + k);
  const rows = Object.fromEntries(
    Object.entries(FIELDS).map(([name, shape]) => [name, choices.numbers(ROWS * sizeOf(shape))]),
  ) as unknown as Rows;
  const draws = new Map(
    [...drawsOf(given).values()].map((term) => [
      term,
      choices.numbers(
        sizeOf(term.shape),
        term.name === 'normal' ? -2 : 0,
        term.name === 'normal' ? 2 : 1,
      ),
    ]),
  );
  return { rows, draws };
}

/** Rules of a device whose library multiplies some of the networks' products. */
const vendors = vendorRules('a library', { multiplyAdds: 60, terms: 4 });

/** Greatest number that is compared. */
const LARGEST = 50;

/** Size of the random roundings, in units of the last place of a float32. */
const ROUNDINGS = [4, 64];

/** Computes a learner in float64, also with random roundings, which tell what a float32 may differ. */
class Plains {
  readonly exact: Plain;
  readonly #rounded: readonly { plain: Plain; round: (value: number) => number }[];
  constructor(given: Drawn, initial: ReadonlyMap<string, ArrayLike<number>>) {
    this.exact = new Plain(given, initial);
    this.#rounded = ROUNDINGS.map((size, i) => {
      const choices = new Choices(i);
      const round = (value: number) => value * (1 + choices.between(-size, size) * 2 ** -24);
      return { plain: new Plain(given, initial), round };
    });
  }
  step(...given: Parameters<Plain['step']>): readonly (number[] | null)[] {
    return [
      this.exact.step(...given),
      ...this.#rounded.map(({ plain, round }) => withRounding(round, () => plain.step(...given))),
    ];
  }
  /** Returns what `read` reads, first of the exact computation. */
  read(read: (plain: Plain) => readonly number[]): readonly (readonly number[])[] {
    return [this.exact, ...this.#rounded.map(({ plain }) => plain)].map(read);
  }
}

/** Returns how numbers differ from the first of `wanted`, by more than the other ones explain. */
function difference(
  found: ArrayLike<number>,
  [exact, ...others]: readonly (readonly number[])[],
): string | null {
  const scale = exact!.reduce((most, x) => Math.max(most, Math.abs(x)), 1);
  const spread = exact!.reduce(
    (most, x, i) => others.reduce((far, other) => Math.max(far, Math.abs(other[i]! - x)), most),
    0,
  );
  const allowed = 4e-6 * scale + 4 * spread;
  for (const [i, x] of exact!.entries())
    if (!(Math.abs(found[i]! - x) <= allowed))
      return `[${i}] is ${found[i]}, and the rules give ${x}, with ${allowed} allowed`;
  return null;
}

/** Returns the first difference between a learner and the rules of phases, or null. */
async function wrongValues(
  given: Drawn,
  options: { rows: number; records: boolean; products?: ProductRules },
) {
  const { records, products } = options;
  const own = { own: false, records };
  const made = new Made(given, options.rows, products ? { ...own, products, poison: true } : own);
  try {
    const { learner } = made;
    await learner.ready;
    const names = given.holders.map(({ name }) => name);
    const initial = new Map<string, Float32Array>();
    for (const name of names) initial.set(name, await learner.weights(name).toArray());
    const plains = new Plains(given, initial);
    const priorities = plains.read(() => new Array<number>(options.rows * ROWS).fill(0));
    for (let k = 0; k < COUNT; k += options.rows) {
      made.feed(k);
      made.update();
      const means = plains.read(() => learner.scalars.map(() => 0));
      for (let i = 0; i < options.rows; i++) {
        const { rows, draws } = fed(given, k + i);
        for (const [p, written] of plains.step(rows, draws).entries())
          written?.forEach((x, row) => {
            (priorities[p] as number[])[i * ROWS + row] = x;
          });
        for (const [p, now] of plains.read(({ scalars }) => [...scalars.values()]).entries())
          now.forEach((x, s) => {
            (means[p] as number[])[s]! += x / options.rows;
          });
      }
      const results: (readonly [string, Floats, readonly (readonly number[])[]])[] = [
        ...names.map(
          (name) =>
            [
              name,
              learner.weights(name),
              plains.read(({ parameters }) => parameters.get(name)!.map(({ value }) => value)),
            ] as const,
        ),
        [`scalars (${learner.scalars})`, made.out, means],
        ['priorities', made.priorities, priorities],
        ...Object.entries(made.losses).map(
          ([event, loss]) =>
            [
              `the loss of ${event}`,
              loss,
              plains.read(({ losses }) => [losses.get(event) ?? 0]),
            ] as const,
        ),
      ];
      // Learners whose parameters grow without bounds are compared until then.
      if (results.some(([, , [exact]]) => exact!.some((x) => Math.abs(x) > LARGEST))) return null;
      for (const [name, tensor, wanted] of results) {
        const wrong = difference(await tensor.toArray(), wanted);
        if (wrong) return `minibatch ${k + options.rows - 1}: ${name}${wrong}`;
      }
    }
    return null;
  } finally {
    made.close();
  }
}

/** Returns a way of running a learner that changes its bits, or null. */
async function changedBits(given: Drawn): Promise<string | null> {
  const cycle = given.phases.reduce((n, { every }) => (n % every === 0 ? n : n * every), 1);
  const ways = {
    issued: { rows: 1 },
    'in updates of several minibatches': { rows: 3 },
    'with poisoned memory': { rows: 1, options: { poison: true } },
    'without chains': { rows: 1, options: { chains: false } },
    'without joined heads': { rows: 1, options: { heads: false } },
    'with sums and counts at their places': { rows: 1, options: { late: false } },
    'with records': { rows: 1, records: true },
    'with a launch for each op': {
      rows: 1,
      options: { chains: false, heads: false, late: false },
    },
    // The cycles of a capture begin at its first minibatch.
    ...(given.first % cycle === 0 && {
      'in captures of whole cycles': { rows: cycle, capture: true },
      ...(!ON_HOST && {
        'in captures on two streams': { rows: cycle, capture: true, options: { lanes: 'all' } },
        'in captures on two streams with poisoned memory': {
          ...{ rows: cycle, capture: true },
          options: { lanes: 'all', poison: true },
        },
      }),
    }),
    ...(ON_HOST && { 'in captures of one minibatch': { rows: 1, capture: true } }),
  } as Record<
    string,
    { rows: number; options?: PlanOptions; records?: boolean; capture?: boolean }
  >;
  let first: string | null = null;
  for (const [way, { rows, options = {}, records, capture = false }] of Object.entries(ways)) {
    const made = new Made(given, rows, { own: true, ...options, ...(records && { records }) });
    try {
      await made.learner.ready;
      const run = capture ? made.captured() : () => made.update();
      const priorities: string[] = [];
      for (let k = 0; k < COUNT; k += rows) {
        made.feed(k);
        run();
        priorities.push(await made.prioritized());
      }
      const bits = `${await made.bits()}\npriorities ${priorities}`;
      first ??= bits;
      if (bits === first) continue;
      const [found, wanted] = [bits, first].map((text) => text.split('\n'));
      return `${way}: ${found!.find((line, i) => line !== wanted![i])?.split(' ')[0]} differs`;
    } finally {
      made.close();
    }
  }
  return null;
}

/** Returns what is wrong with a learner, or null. */
export async function wrongIn(given: Drawn): Promise<string | null> {
  if (given.stale) {
    try {
      new TracedLearner(openDevice(TESTED), descriptionOf(given)).close();
      return 'a stale gradient was not refused';
    } catch (error) {
      return /differentiates through/.test(String(error)) ? null : String(error);
    }
  }
  try {
    return (
      (await wrongValues(given, { rows: 1, records: true })) ??
      (await wrongValues(given, { rows: 3, records: false })) ??
      (await wrongValues(given, { rows: 1, records: true, products: ownRules })) ??
      (await wrongValues(given, { rows: 1, records: false, products: vendors })) ??
      (await changedBits(given))
    );
  } catch (error) {
    return String((error as Error).stack ?? error);
  }
}

/** Returns the program of a learner as text. */
export function textOf({ terms, phases, groups, followers }: Drawn): string {
  const needed = new Map<Term, number>();
  for (const [p, { losses, scalars, priorities }] of phases.entries())
    enter(needed, [...losses, ...scalars].map(([, term]) => term).concat(priorities ?? []), p);
  const number = (term: Term) => `t${terms.indexOf(term)}`;
  const named = (list: readonly (readonly [string, Term])[]) =>
    list.map(([name, term]) => `${name}: ${number(term)}`).join(', ');
  return [
    ...groups.map((group) => JSON.stringify(group)),
    ...followers.map((follower) => JSON.stringify(follower)),
    ...terms
      .filter((term) => needed.has(term))
      .map(
        (term) =>
          `${number(term)} = ${term.kind} ${term.name}(${term.inputs.map(number)}) [${term.shape}], phase ${needed.get(term)}`,
      ),
    ...phases.map(
      ({ every, losses, scalars, priorities }) =>
        `every ${every}: minimize ${named(losses)}; scalars ${named(scalars)}; priorities ${priorities ? number(priorities) : 'none'}`,
    ),
  ].join('\n');
}
