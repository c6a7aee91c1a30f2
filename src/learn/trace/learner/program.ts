/**
 * The program of a learner's update: its memory, the trace of its phases, and the plan that computes
 * them. docs/contributing/design/expressions.md has the rules of phases.
 */
import { createHash } from 'node:crypto';
import { describeValue } from '../../../base/checks.ts';
import type { Device, Tensor } from '../../../device/device.ts';
import { guardConstruction, Owner, own } from '../../../device/owner.ts';
import { Network } from '../../network/network.ts';
import type { Optimizer } from '../../optimizer.ts';
import { Expression, expressionOf, nodeFrom, nodeOf, reshaped } from '../expression.ts';
import { gradientsOf } from '../gradient.ts';
import { neededBy } from '../plan/merge.ts';
import type { Output, Section } from '../plan/plan.ts';
import { countOf, type Shape, shown, sizeOf } from '../shapes.ts';
import {
  checkOptions,
  memoryOf,
  type Node,
  recording,
  refuseRange,
  refuseType,
  Tape,
  userLine,
  withLine,
} from '../tape.ts';
import { type BatchField, checkField, inputOf } from './fields.ts';
import { applied, Ensemble, Follower, MAX_EVERY, Parameter } from './networks.ts';
import { OptimizerDescription } from './optimizers.ts';

type Floats = Tensor<'float32'>;

/** A description before its parts are checked. */
export interface LooseDescription {
  readonly name?: unknown;
  readonly seed?: unknown;
  readonly rows?: unknown;
  readonly firstUpdate?: unknown;
  readonly batch?: unknown;
  readonly networks?: unknown;
  readonly parameters?: unknown;
  readonly optimizers?: unknown;
  readonly update?: unknown;
}

/** Parameters with a name: a network, an ensemble or a loose parameter, or a follower of one. */
export interface Holder {
  readonly name: string;
  /** null for a loose parameter */
  readonly network: Network | null;
  /** number of networks of an ensemble, or null */
  readonly members: number | null;
  readonly shape: Shape;
  readonly size: number;
  /** offset in the vector of all parameters, if `memory` is undefined */
  offset: number;
  readonly follower: Follower | null;
  /** memory outside of the vector */
  readonly memory: Floats | undefined;
}

/** An optimizer and the parameters that it steps. */
export interface Stepper {
  readonly name: string;
  readonly description: OptimizerDescription;
  readonly holders: readonly Holder[];
  readonly optimizer: Optimizer;
  /** gradient of all holders, in the order of the vector */
  readonly gradient: Floats;
  /** index of its number of steps among the program's counters */
  readonly counter: number;
  /** the follower that its steps move, or null */
  follow: Follow | null;
}

/** A follower that an optimizer moves in the launch of its step. */
export interface Follow {
  readonly holder: Holder;
  /** index of the phase whose step moves the follower: the last one that steps the optimizer */
  readonly phase: number;
  /** the first parameter of the optimizer that the follower follows */
  readonly first: number;
  readonly tau: number;
  /** number of steps of the optimizer from one move to the next */
  readonly every: number;
}

/** An optimizer's step in a phase. */
export interface Event {
  readonly name: string;
  readonly stepper: Stepper;
  /** index of the loss among the plan's outputs */
  loss: number;
}

/** A phase of the update: sections of the plan, and the optimizers' steps that follow them. */
export interface PlannedPhase {
  readonly every: number;
  /** sections with their periods, in order. The last one has the phase's own period */
  readonly sections: readonly { readonly section: number; readonly every: number }[];
  readonly events: readonly Event[];
  /** section that computes the losses, which only records need */
  readonly losses: number;
  /** section that computes the priorities, which not every update returns, or −1 */
  readonly priorities: number;
}

/** Names and memory that a built-in learner gives its program. */
export interface ProgramOptions {
  /** memory of networks outside of the program's vector, by name. Each has its own optimizer */
  readonly memory?: Readonly<Record<string, Floats>>;
  /** names of all scalars, in order. A scalar that no phase has keeps its value */
  readonly scalars?: readonly string[];
  /**
   * names of scalars that `update` gets as parameters of shape []. They have the values that a phase
   * wrote last
   */
  readonly reads?: readonly string[];
  /** names of the draws, in the order in which `update` makes them */
  readonly draws?: readonly string[];
  /** where the learner is made, which is the line of all ops in errors and reports */
  readonly made?: Error;
  /** returns the name of the event of an optimizer's step, of which there were `times` before */
  event?(optimizer: string, times: number): string;
}

const list = (names: readonly string[]): string => names.join(', ') || 'none';

const plain = (what: string, value: unknown): Readonly<Record<string, unknown>> => {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    refuseType(`learner: ${what} must be an object by name, got ${describeValue(value)}`);
  return value as Readonly<Record<string, unknown>>;
};

/** Returns an object whose unknown properties throw an error that lists the known ones. */
function declared<T extends object>(object: T, what: string): T {
  return new Proxy(object, {
    get(target, key) {
      if (typeof key === 'symbol' || Object.hasOwn(target, key)) return Reflect.get(target, key);
      if (key === 'then' || key === 'toJSON') return undefined;
      return refuseType(
        `${what} '${key}' is not declared in learner(); declared: ${list(Object.keys(target))}`,
      );
    },
    has: (target, key) => Object.hasOwn(target, key),
  });
}

const known = [
  'name',
  'rows',
  'batch',
  'networks',
  'optimizers',
  'update',
  'parameters',
  'seed',
  'firstUpdate',
];

/** Names of the state that are not those of networks and parameters. */
const reserved = ['numbers', 'updates', 'generator', 'optimizers'];

/** Refuses a name that would make the names of a state ambiguous. */
function checkName(what: string, name: string): void {
  if (!/^[A-Za-z_]\w*$/.test(name) || reserved.includes(name))
    refuseType(
      `learner: ${what} cannot have the name '${name}'; a name has letters, digits and _, and ${reserved.join(', ')} are names in the state`,
    );
}

function holdersOf(
  description: LooseDescription,
  memory: Readonly<Record<string, Floats>>,
): Holder[] {
  const networks = plain('networks', description.networks ?? {});
  const parameters = plain('parameters', description.parameters ?? {});
  for (const name of Object.keys(networks)) checkName('a network', name);
  for (const name of Object.keys(parameters)) checkName('a parameter', name);
  const holders: Holder[] = [];
  const of = (
    name: string,
    network: Network,
    members: number | null,
    follower: Follower | null,
  ) => {
    const size = network.parameterCount * (members ?? 1);
    if (size === 0)
      refuseRange(`learner: network '${name}' has no parameters; write its ops as expressions`);
    const own = { shape: [size], size, offset: 0, follower, memory: memory[name] };
    holders.push({ name, network, members, ...own });
  };
  const followers: [string, Follower][] = [];
  for (const [name, given] of Object.entries(networks)) {
    if (given instanceof Network) of(name, given, null, null);
    else if (given instanceof Ensemble) of(name, given.network, given.members, null);
    else if (given instanceof Follower) followers.push([name, given]);
    else
      refuseType(
        `learner: networks.${name} must be a Network, ensemble(…), polyak(…) or copied(…), got ${describeValue(given)}`,
      );
  }
  for (const [name, given] of Object.entries(parameters)) {
    if (!(given instanceof Parameter))
      refuseType(`learner: parameters.${name} must be a parameter(…), got ${describeValue(given)}`);
    if (Object.hasOwn(networks, name))
      refuseType(`learner: '${name}' is a network and a parameter; give them two names`);
    const { shape } = given as Parameter;
    const size = sizeOf(shape);
    const own = { shape, size, offset: 0, follower: null, memory: undefined };
    holders.push({ name, network: null, members: null, ...own });
  }
  for (const [name, follower] of followers) {
    const source = holders.find(
      (each) => each.name === follower.of && !each.follower && each.network,
    );
    if (!source) {
      const names = holders
        .filter((each) => each.network && !each.follower)
        .map((each) => each.name);
      return refuseType(
        `learner: networks.${name} follows '${follower.of}', which is not a network here; networks: ${list(names)} (it is described at ${userLine(follower.made)})`,
      );
    }
    holders.push({ ...source, name, follower, memory: memory[name] });
  }
  return holders;
}

interface Loss {
  readonly stepper: Stepper;
  readonly node: Node;
}
interface CheckedPhase {
  readonly every: number;
  readonly losses: readonly Loss[];
  readonly scalars: readonly (readonly [string, Node])[];
  readonly priorities: Node | null;
}

/** Memory, trace and sections of a learner's update. */
export class Program extends Owner {
  readonly name: string;
  readonly seed: number;
  readonly rows: number;
  readonly firstUpdate: number;
  readonly fields: readonly BatchField[];
  readonly holders: readonly Holder[];
  /** all parameters, those of followers last */
  readonly vector: Floats;
  readonly steppers: readonly Stepper[];
  readonly scalars: readonly string[];
  /** the scalars of the last minibatch */
  readonly numbers: Floats;
  /** int32: number of the next minibatch, and the number of steps of each optimizer */
  readonly counters: Tensor<'int32'>;
  readonly phases: readonly PlannedPhase[];
  readonly sections: readonly Section[];
  /** index of the priorities among the plan's outputs, or −1 */
  readonly priorities: number;
  /** draws by name, in the order in which an update makes them */
  readonly draws: readonly { readonly name: string; readonly node: Node }[];
  /** names of the fields that the trace reads */
  readonly reads: ReadonlySet<string>;
  /** hash of the trace, which a resumed run must share */
  readonly hash: string;
  /** texts of warnings about the description */
  readonly warnings: readonly string[];

  constructor(device: Device, given: LooseDescription, how: ProgramOptions = {}) {
    super('this learner');
    checkOptions('learner', given, known, 'pass a description');
    const { name, seed = 0, rows, firstUpdate = 0, update } = given;
    if (typeof name !== 'string' || name === '')
      refuseType(`learner: name must be a text such as 'my-dqn', got ${describeValue(name)}`);
    this.name = name as string;
    countOf('learner: rows', rows as number, 1, refuseRange);
    countOf('learner: seed', seed as number, 0, refuseRange);
    countOf('learner: firstUpdate', firstUpdate as number, 0, refuseRange);
    if ((firstUpdate as number) >= 2 ** 31)
      refuseRange(`learner: firstUpdate must be below 2^31, got ${firstUpdate}`);
    this.rows = rows as number;
    this.seed = seed as number;
    this.firstUpdate = firstUpdate as number;
    if (typeof update !== 'function')
      refuseType(
        `learner: update must be a function of networks, batch and parameters, got ${describeValue(update)}`,
      );
    this.fields = Object.entries(plain('batch', given.batch)).map(([field, described]) =>
      checkField(field, described),
    );
    if (this.fields.length === 0) refuseType('learner: batch declares no fields');
    const holders = holdersOf(given, how.memory ?? {});
    const groups = this.#groups(holders, plain('optimizers', given.optimizers));
    // The vector: parameters with an optimizer, then those without one, then followers.
    const stepped = groups.flatMap((group) => group.holders);
    const rest = holders.filter((each) => !stepped.includes(each));
    this.holders = [
      ...stepped,
      ...rest.filter(({ follower }) => !follower),
      ...rest.filter(({ follower }) => follower),
    ];
    let size = 0;
    for (const holder of this.holders) {
      if (holder.memory) continue;
      holder.offset = size;
      size += holder.size;
    }
    using construction = guardConstruction(this);
    const allocate = (length: number): Floats => own(this, device.allocate({ shape: [length] }));
    this.vector = allocate(size);
    this.#initialize(holders, given);
    const counters = device.allocate({ shape: [1 + groups.length], dtype: 'int32' });
    this.counters = own(this, counters);
    this.steppers = groups.map((group, i) => {
      const length = group.holders.reduce((sum, each) => sum + each.size, 0);
      const { offset, memory } = group.holders[0] as Holder;
      const parameters = memory ?? this.vector.view({ shape: [length], offset });
      const counter = 1 + i;
      const steps = counters.view({ shape: [1], offset: counter });
      const make = () => group.description.make(device, parameters, steps);
      const named = () => withLine(`learner: optimizers.${group.name}`, make);
      const optimizer = own(this, how.made ? make() : named());
      return { ...group, optimizer, gradient: allocate(length), counter, follow: null };
    });
    const tape = new Tape(how.made);
    const memories = new Map<Holder, Node>();
    for (const holder of this.holders) {
      const tensor = this.view(holder);
      const memory = tape.add('memory', { tensor, name: holder.name }, [], holder.shape);
      memories.set(holder, memory as Node);
    }
    const numbers = how.scalars ? allocate(how.scalars.length) : undefined;
    const kept = new Map(
      (how.reads ?? []).map((scalar) => {
        const tensor = numbers!.view({ shape: [], offset: how.scalars!.indexOf(scalar) });
        return [scalar, tape.add('memory', { tensor, name: scalar }, [], []) as Node];
      }),
    );
    const checked = recording(tape, () => this.#trace(tape, memories, kept, update as never));
    const scalars = checked.flatMap((phase) => phase.scalars.map(([scalar]) => scalar));
    for (const [i, scalar] of scalars.entries())
      if (scalars.indexOf(scalar) !== i && !how.scalars)
        refuseType(`learner: two phases have a scalar '${scalar}'; give them two names`);
    this.scalars = how.scalars ?? scalars;
    this.numbers = numbers ?? allocate(Math.max(this.scalars.length, 1));
    const planned = this.#plan(tape, memories, checked, { kept, event: how.event });
    this.phases = planned.phases;
    this.sections = planned.sections;
    this.priorities = planned.priorities;
    this.draws = drawsOf(tape, planned.order, how.draws);
    this.reads = new Set(
      [...planned.order.keys()].flatMap((node) =>
        node.op === 'input' ? [node.attributes.name] : [],
      ),
    );
    this.hash = hashOf(tape, planned.sections);
    this.#checkFollowers();
    for (const stepper of this.steppers)
      stepper.follow = this.#followOf(stepper, memories, planned.order);
    this.warnings = this.#idle(memories, planned.order);
    construction.done();
  }

  /** Returns the parameters of a holder as one vector. */
  flat({ size, offset, memory }: Holder): Floats {
    return memory ?? this.vector.view({ shape: [size], offset });
  }
  /** Returns the parameters of a holder, in its shape. */
  view(holder: Holder): Floats {
    return this.flat(holder).view({ shape: [...holder.shape] });
  }
  /** Returns a holder by its name. */
  holder(name: string): Holder {
    return this.holders.find((each) => each.name === name) as Holder;
  }

  /** Warns of networks and parameters that an optimizer never steps, or that nothing reads. */
  #idle(memories: ReadonlyMap<Holder, Node>, order: ReadonlyMap<Node, number>): string[] {
    const minimized = new Set(
      this.phases.flatMap(({ events }) => events.map(({ stepper }) => stepper)),
    );
    const unstepped = this.steppers.filter((stepper) => !minimized.has(stepper));
    // A follower may be there for a policy alone.
    const unread = this.holders.filter(
      (holder) => !holder.follower && !order.has(memories.get(holder)!),
    );
    const names = (of: readonly { readonly name: string }[]) => list(of.map(({ name }) => name));
    return [
      ...(unstepped.length > 0
        ? [
            `no phase minimizes ${names(unstepped)}; add a loss to minimize, or remove the optimizer`,
          ]
        : []),
      ...(unread.length > 0 ? [`update does not use ${names(unread)}`] : []),
    ];
  }

  /**
   * Returns the follower that the launch of an optimizer's step can move. It moves at each step of the
   * last phase that steps the optimizer, and no later launch of the update reads it.
   */
  #followOf(
    { name, holders, optimizer }: Stepper,
    memories: ReadonlyMap<Holder, Node>,
    order: ReadonlyMap<Node, number>,
  ): Follow | null {
    const of = this.phases.flatMap(({ events }, p) =>
      events.some(({ stepper }) => stepper.optimizer === optimizer) ? [p] : [],
    );
    const phase = of.at(-1);
    if (phase === undefined) return null;
    const { every: period } = this.phases[phase]!;
    for (const holder of this.holders) {
      const { follower } = holder;
      const place = holders.findIndex((each) => each.name === follower?.of);
      if (!follower || place < 0) continue;
      const { kind, every, tau } = follower;
      const always = follower.with === null && period === 1;
      const withSteps = follower.with === name && of.length === 1;
      if (kind === 'polyak' && !(every === 1 && (always || withSteps))) continue;
      const memory = memories.get(holder)!;
      const readLater = [...order].some(
        ([node, p]) => p > phase && node.inputs.some((input) => memoryOf(input) === memory),
      );
      if (readLater) continue;
      const first = holders.slice(0, place).reduce((sum, each) => sum + each.size, 0);
      return { holder, phase, first, tau, every };
    }
    return null;
  }

  /** Refuses followers whose period counts something that does not happen. */
  #checkFollowers(): void {
    const minimized = this.phases.flatMap(({ events }) =>
      events.map(({ stepper }) => stepper.name),
    );
    for (const { name, follower } of this.holders) {
      if (!follower) continue;
      const at = `learner: networks.${name}, described at ${userLine(follower.made)},`;
      if (follower.with !== null && !minimized.includes(follower.with))
        refuseType(
          `${at} follows with '${follower.with}', which no phase minimizes; minimized: ${list([...new Set(minimized)])}`,
        );
      const stepped = this.steppers.some(({ holders }) =>
        holders.some((each) => each.name === follower.of),
      );
      if (follower.kind === 'copied' && !stepped)
        refuseType(
          `${at} counts the steps of '${follower.of}', which has no optimizer; use polyak('${follower.of}', 1, { every: ${follower.every} })`,
        );
    }
  }

  #groups(holders: readonly Holder[], given: Readonly<Record<string, unknown>>) {
    const groups = Object.entries(given).map(([name, description]) => {
      if (!(description instanceof OptimizerDescription))
        return refuseType(
          `learner: optimizers.${name} must be adam(…), adamW(…) or sgd(…), got ${describeValue(description)}`,
        );
      const of = (description.of ?? [name]).map((each) => {
        const holder = holders.find((one) => one.name === each);
        if (!holder)
          return refuseType(
            `learner: optimizers.${name} steps '${each}', which is neither a network nor a parameter; declared: ${list(holders.map((one) => one.name))}`,
          );
        if (holder.follower)
          refuseType(
            `learner: optimizers.${name} steps '${each}', which follows '${holder.follower.of}'`,
          );
        return holder;
      });
      return { name, description, holders: of };
    });
    const all = groups.flatMap((group) => group.holders.map((holder) => ({ holder, group })));
    for (const [i, { holder, group }] of all.entries()) {
      const first = all.findIndex((each) => each.holder === holder);
      if (first !== i)
        refuseType(
          `learner: optimizers ${all[first]!.group.name} and ${group.name} both step '${holder.name}'`,
        );
    }
    return groups;
  }

  /** Writes the initial parameters. Networks get seeds in the order in which they are declared. */
  #initialize(holders: readonly Holder[], given: LooseDescription): void {
    const parameters = plain('parameters', given.parameters ?? {});
    let { seed } = this;
    const initial = new Map<string, Float32Array>();
    for (const { name, network, members, size, follower } of holders) {
      if (follower) continue;
      if (network === null) {
        initial.set(name, (parameters[name] as Parameter).initial);
        continue;
      }
      const own = new Float32Array(size);
      for (let j = 0; j < (members ?? 1); j++)
        own.set(network.initialize(seed++), j * network.parameterCount);
      initial.set(name, own);
    }
    const flat = new Float32Array(this.vector.size);
    for (const { name, follower, memory, offset } of holders) {
      const own = initial.get(follower?.of ?? name) as Float32Array;
      if (memory) memory.write(own);
      else flat.set(own, offset);
    }
    this.vector.write(flat);
  }

  /** Calls the user's function, and checks the phases that it returns. */
  #trace(
    tape: Tape,
    memories: ReadonlyMap<Holder, Node>,
    kept: ReadonlyMap<string, Node>,
    update: (...given: readonly unknown[]) => unknown,
  ): readonly CheckedPhase[] {
    const networks: Record<string, unknown> = {};
    const parameters: Record<string, unknown> = {};
    for (const [name, memory] of kept) parameters[name] = expressionOf(memory);
    for (const [{ name, network, members }, memory] of memories) {
      if (network) networks[name] = applied(name, network, members, memory);
      else parameters[name] = expressionOf(memory);
    }
    const batch = Object.fromEntries(
      this.fields.map((field) => [field.name, expressionOf(inputOf(tape, this.rows, field))]),
    );
    const returned = update(
      declared(networks, 'network'),
      declared(batch, 'batch field'),
      declared(parameters, 'parameter'),
    );
    if (typeof (returned as { then?: unknown } | null)?.then === 'function')
      refuseType('learner: update must return its phases at once, so it cannot be async');
    const phases = Array.isArray(returned) ? returned : [returned];
    if (phases.length === 0) refuseType('learner: update returned no phases');
    const checked = phases.map((phase, i) =>
      this.#phase(tape, phase, phases.length > 1 ? `phase ${i}` : 'update'),
    );
    if (checked.filter(({ priorities }) => priorities).length > 1)
      refuseType('learner: two phases return priorities; one of them does');
    return checked;
  }

  #phase(tape: Tape, given: unknown, what: string): CheckedPhase {
    const phase = plain(`the result of ${what}`, given);
    if (given instanceof Expression)
      refuseType(`learner: ${what} is an expression; return { minimize: { name: loss } }`);
    checkOptions(
      `learner: ${what}`,
      phase,
      ['minimize', 'scalars', 'priorities', 'every'],
      'return { minimize: { name: loss } }',
    );
    const expression = (key: string, value: unknown): Node => {
      const node = nodeOf(`learner: ${what}: ${key}`, value);
      if (node.tape !== tape)
        refuseType(
          `learner: ${what}: ${key} is an expression of another learner or trace, made at ${userLine(node.made)}`,
        );
      return node;
    };
    const single = (key: string, value: unknown): Node => {
      const node = expression(key, value);
      if (sizeOf(node.shape) !== 1 || node.shape.length > 1)
        refuseRange(
          `learner: ${what}: ${key}, made at ${userLine(node.made)}, must have shape [] or [1], got ${shown(node.shape)}; take its mean()`,
        );
      return node;
    };
    const every = phase.every ?? 1;
    countOf(`learner: ${what}: every`, every as number, 1, refuseRange);
    if ((every as number) > MAX_EVERY)
      refuseRange(`learner: ${what}: every must be at most 2^31 − 1, got ${every}`);
    const minimize = Object.entries(plain(`minimize of ${what}`, phase.minimize ?? {})).filter(
      ([, loss]) => loss !== undefined,
    );
    const losses = minimize.map(([name, loss]) => {
      const stepper = this.steppers.find((each) => each.name === name);
      if (!stepper) {
        const holder = this.holders.find((each) => each.name === name);
        return refuseType(
          holder?.follower
            ? `learner: ${what} minimizes '${name}', which follows '${holder.follower.of}'; minimize that`
            : holder
              ? `learner: ${what} minimizes '${name}', which has no optimizer; add optimizers: { ${name}: adam() }`
              : `learner: ${what} minimizes '${name}', which is not declared; optimizers: ${list(this.steppers.map((each) => each.name))}`,
        );
      }
      return { stepper, node: single(`minimize.${name}`, loss) };
    });
    const scalars = Object.entries(plain(`scalars of ${what}`, phase.scalars ?? {}))
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [name, single(`scalars.${name}`, value)] as const);
    let priorities: Node | null = null;
    if (phase.priorities !== undefined) {
      priorities = expression('priorities', phase.priorities);
      const { shape } = priorities;
      if (shape.length < 1 || shape.length > 2 || shape[0] !== this.rows || (shape[1] ?? 1) !== 1)
        refuseRange(
          `learner: ${what}: priorities must be [${this.rows}], one number a row, got ${shown(shape)}`,
        );
      priorities = nodeFrom(reshaped(expressionOf(priorities), [this.rows]));
    }
    return { every: every as number, losses, scalars, priorities };
  }

  /** Derives the gradients, and orders all results in sections. */
  #plan(
    tape: Tape,
    memories: ReadonlyMap<Holder, Node>,
    checked: readonly CheckedPhase[],
    {
      kept,
      event = (name, times) => (times === 0 ? name : `${name}.${times}`),
    }: { kept: ReadonlyMap<string, Node>; event: ProgramOptions['event'] },
  ) {
    const order = new Map<Node, number>();
    const enter = (nodes: readonly Node[], phase: number) => {
      for (const node of neededBy(nodes, order)) order.set(node, phase);
    };
    const changes = checked.map(
      ({ losses, scalars }) =>
        new Set([
          ...losses.flatMap(({ stepper }) => stepper.holders.map((each) => memories.get(each)!)),
          ...scalars.flatMap(([scalar]) => kept.get(scalar) ?? []),
        ]),
    );
    const main = checked.map((phase, p) => {
      const values = phase.scalars.map(([, node]) => node);
      const roots = [...phase.losses.map(({ node }) => node), ...values];
      enter(phase.priorities ? [...roots, phase.priorities] : roots, p);
      const outputs: Output[] = phase.losses.flatMap(({ stepper, node }) =>
        this.#gradients(stepper, node, memories, { order, changes, phase: p }),
      );
      for (const { stepper } of phase.losses) {
        const { schedule } = stepper.description;
        if (schedule) outputs.push(rateOf(tape, stepper));
      }
      for (const [name, node] of phase.scalars) {
        const offset = this.scalars.indexOf(name);
        const into = this.numbers.view({ shape: [1], offset });
        // A scalar that the trace reads has its value when the next launch reads it.
        outputs.push({ node, into, reported: !kept.has(name) });
      }
      enter(
        outputs.map(({ node }) => node),
        p,
      );
      return outputs;
    });
    // An op that phases of several periods need runs as often as each of them.
    const periods = new Map<Node, number>();
    for (const [p, outputs] of main.entries())
      for (const node of neededBy(
        outputs.map((each) => each.node),
        new Map(),
      ))
        periods.set(node, gcd(periods.get(node) ?? 0, checked[p]!.every));
    // Records may read each loss alone, and a caller the priorities. An op that only one of them needs
    // belongs to its section.
    const read = new Map<Node, number[]>();
    for (const { losses, priorities, every } of checked)
      for (const roots of [losses.map((each) => each.node), priorities ? [priorities] : []])
        for (const node of neededBy(roots, new Map()))
          read.set(node, [...(read.get(node) ?? []), every]);
    for (const [node, all] of read)
      if (all.length > 1 || periods.has(node))
        periods.set(node, all.reduce(gcd, periods.get(node) ?? 0));
    // Each update draws the numbers that only a record or the priorities need, so that these do not
    // change later numbers.
    for (const [node, p] of order)
      if (node.op === 'draw' && !periods.has(node)) periods.set(node, checked[p]!.every);
    const sections: Section[] = [];
    let [outputsBefore, priorities] = [0, -1];
    const seen = new Map<string, number>();
    const ownOf: Node[][] = main.map(() => []);
    for (const [node, phase] of order) ownOf[phase]!.push(node);
    const phases = main.map((outputs, p): PlannedPhase => {
      const { every, losses } = checked[p] as CheckedPhase;
      const own = ownOf[p]!;
      const shorter = [...new Set(own.map((node) => periods.get(node) ?? every))]
        .filter((period) => period !== every)
        .sort((a, b) => a - b);
      const parts = shorter.map((period) => {
        const nodes = own.filter((node) => periods.get(node) === period);
        sections.push({ outputs: [], computes: nodes, every: period });
        return { section: sections.length - 1, every: period };
      });
      // Later phases may need an op that this phase computes.
      const needed = own.filter((node) => periods.get(node) === every);
      sections.push({ outputs, computes: needed, every });
      const last = { section: sections.length - 1, every };
      outputsBefore += outputs.length;
      const prioritized = checked[p]!.priorities;
      if (prioritized) {
        sections.push({ outputs: [{ node: prioritized }], every, optional: true });
        priorities = outputsBefore++;
      }
      const prioritySection = prioritized ? sections.length - 1 : -1;
      const events = losses.map(({ stepper }, i): Event => {
        const times = seen.get(stepper.name) ?? 0;
        seen.set(stepper.name, times + 1);
        return { name: event(stepper.name, times), stepper, loss: outputsBefore + i };
      });
      const results = losses.map(({ node }) => ({ node }));
      sections.push({
        ...{ outputs: results, changes: changes[p]!, every },
        ...{ optional: true, records: true },
      });
      outputsBefore += losses.length;
      return {
        every,
        sections: [...parts, last],
        events,
        losses: sections.length - 1,
        priorities: prioritySection,
      };
    });
    return { phases, sections, priorities, order };
  }

  /** Returns the gradient of a loss with respect to the parameters of an optimizer. */
  #gradients(
    stepper: Stepper,
    loss: Node,
    memories: ReadonlyMap<Holder, Node>,
    at: { order: ReadonlyMap<Node, number>; changes: readonly ReadonlySet<Node>[]; phase: number },
  ): Output[] {
    const wrt = stepper.holders.map((holder) => memories.get(holder)!);
    refuseStale(loss, wrt, at);
    const found = gradientsOf(loss, wrt, (i) => {
      const { name } = stepper.holders[i] as Holder;
      return `learner: the loss of '${stepper.name}', made at ${userLine(loss.made)}, does not depend on '${name}', or only through detach(), comparisons or indices, which have no gradient`;
    });
    let offset = 0;
    return found.map((node, i) => {
      const { size } = stepper.holders[i] as Holder;
      const into = stepper.gradient.view({ shape: [size], offset });
      offset += size;
      return { node, into };
    });
  }
}

/** Computes a learning rate from the number of steps before this one. */
function rateOf(tape: Tape, { name, description, optimizer }: Stepper): Output {
  const { steps, learningRate } = optimizer;
  // Each step of an optimizer reads the count anew, so the ops of two steps must not be merged.
  const called = `steps of ${name} for op ${tape.nodes.length}`;
  const count = tape.add('memory', { tensor: steps, name: called }, [], [1]);
  const step = reshaped(expressionOf(count as Node), []) as Expression<readonly []>;
  const rate = recording(tape, () => description.schedule!(step));
  const node = nodeOf(`optimizers.${name}: the result of the schedule`, rate);
  if (sizeOf(node.shape) !== 1 || node.shape.length > 1 || node.tape !== tape)
    refuseRange(
      `optimizers.${name}: a schedule returns an expression of shape [], got ${shown(node.shape)}`,
    );
  return { node, into: learningRate };
}

/**
 * Refuses a gradient through an op that an earlier phase computed, if parameters that the op reads
 * were stepped since: the gradient would use other parameters than the value.
 */
function refuseStale(
  loss: Node,
  wrt: readonly Node[],
  at: { order: ReadonlyMap<Node, number>; changes: readonly ReadonlySet<Node>[]; phase: number },
): void {
  const { order, changes, phase } = at;
  const above = neededBy([loss], new Map());
  const reached = new Set<Node>(wrt);
  for (const node of [...above].sort((a, b) => a.id - b.id)) {
    if (node.op === 'detach' || !node.inputs.some((input) => reached.has(input))) continue;
    reached.add(node);
    const computed = order.get(node) ?? phase;
    if (computed === phase || memoryOf(node)) continue;
    for (const input of node.inputs) {
      const memory = memoryOf(input);
      if (memory?.op !== 'memory') continue;
      if (changes.slice(computed, phase).some((each) => each.has(memory)))
        refuseType(
          `learner: phase ${phase} differentiates through '${memory.attributes.name}' at ${userLine(node.made)}, which phase ${computed} computed before it stepped '${memory.attributes.name}'; compute it again, as in ${memory.attributes.name}(x), for the later loss`,
        );
    }
  }
}

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));

/** Names the draws in program order, and returns them in the order in which an update makes them. */
function drawsOf(tape: Tape, order: ReadonlyMap<Node, number>, names?: readonly string[]) {
  const counts = { normal: 0, uniform: 0 };
  let at = 0;
  const all = tape.nodes.flatMap((node) => {
    if (node.op !== 'draw') return [];
    const { kind } = node.attributes;
    return [{ name: names?.[at++] ?? `${kind}.${counts[kind]++}`, node: node as Node }];
  });
  if (names && names.length !== all.length)
    throw new Error(`${names.length} names of draws are given, and update makes ${all.length}`);
  return all.sort((a, b) => (order.get(a.node) ?? 0) - (order.get(b.node) ?? 0));
}

/** Returns a hash of the ops that the sections need. */
function hashOf(tape: Tape, sections: readonly Section[]): string {
  const hash = createHash('sha256');
  const needed = neededBy(
    sections.flatMap(({ outputs }) => outputs.map(({ node }) => node)),
    new Map(),
  );
  const names = new Map<Node, number>();
  for (const node of tape.nodes) {
    if (!needed.has(node)) continue;
    names.set(node, names.size);
    const attributes = Object.entries(node.attributes).map(([key, value]) =>
      value instanceof Float32Array
        ? `${key} ${new Uint32Array(value.buffer, value.byteOffset, value.length)}`
        : typeof value === 'number' || typeof value === 'string' || Array.isArray(value)
          ? `${key} ${value}`
          : typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype
            ? `${key} ${Object.entries(value as object)}`
            : key,
    );
    const inputs = node.inputs.map((input) => names.get(input));
    hash.update([node.op, node.shape, inputs, attributes].join(' '));
  }
  return hash.digest('hex').slice(0, 16);
}
