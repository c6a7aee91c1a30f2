/**
 * The program of a learner's update: its memory, the trace of its phases, and the plan that computes
 * them. docs/contributing/design/expressions.md has the rules of phases.
 */
import { describeValue } from '../../../base/checks.ts';
import type { Device, Tensor } from '../../../device/device.ts';
import { guardConstruction, Owner, own } from '../../../device/owner.ts';
import type { Section } from '../plan/plan.ts';
import { countOf } from '../shapes.ts';
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
import { type BatchField, checkField } from './fields.ts';
import { groupsOf, type Holder, holdersOf, list, plain } from './holders.ts';
import type { Parameter } from './networks.ts';
import { type Follow, type PlannedPhase, phasesOf, type Stepper } from './phases.ts';
import { drawsOf, hashOf, sectionsOf } from './sections.ts';

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
    const groups = groupsOf(holders, plain('optimizers', given.optimizers));
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
    const traced = { tape, memories, kept };
    const checked = recording(tape, () => phasesOf(this, traced, update as never));
    const scalars = checked.flatMap((phase) => phase.scalars.map(([scalar]) => scalar));
    for (const [i, scalar] of scalars.entries())
      if (scalars.indexOf(scalar) !== i && !how.scalars)
        refuseType(`learner: two phases have a scalar '${scalar}'; give them two names`);
    this.scalars = how.scalars ?? scalars;
    this.numbers = numbers ?? allocate(Math.max(this.scalars.length, 1));
    const planned = sectionsOf(this, traced, checked, how.event);
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
    // Whether no minibatch steps the optimizer in an earlier phase only.
    const ends = of.every((p) => this.phases[p]!.every % period === 0);
    for (const holder of this.holders) {
      const { follower } = holder;
      const place = holders.findIndex((each) => each.name === follower?.of);
      if (!follower || place < 0) continue;
      const { kind, every, tau } = follower;
      const always = follower.with === null && period === 1;
      const withSteps = follower.with === name && of.length === 1;
      if (kind === 'polyak' && !(every === 1 && (always || withSteps))) continue;
      if (kind === 'copied' && !ends) continue;
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
}
