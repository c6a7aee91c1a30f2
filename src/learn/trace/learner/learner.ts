/** Makes a learner from a description: losses as expressions, whose gradients are derived. */

import { checkCount } from '../../../base/checks.ts';
import { stateError } from '../../../base/errors.ts';
import { checkDevice } from '../../../device/checks.ts';
import type { Device, Stream, Tensor } from '../../../device/device.ts';
import { guarded } from '../../../device/guarded.ts';
import { guardConstruction, own } from '../../../device/owner.ts';
import { captures } from '../../../device/stream.ts';
import { Adam } from '../../adam.ts';
import type { Columns } from '../../batch.ts';
import { convert } from '../../convert.ts';
import {
  generatorOf,
  installHooks,
  Learner,
  type LearnerSettings,
  type StepContext,
  setPhase,
} from '../../learner.ts';
import type { Network } from '../../network/network.ts';
import { WatchedStream } from '../../non-finite.ts';
import type { Optimizer } from '../../optimizer.ts';
import { MlpPolicy } from '../../policy.ts';
import type { Sgd } from '../../sgd.ts';
import { adamParts, learnerWarning, networkParts, type Part, tensorParts } from '../../state.ts';
import type { WatchedVector } from '../../watch.ts';
import { Plan, type PlanOptions } from '../plan/plan.ts';
import { type Node, refuseRange, refuseType } from '../tape.ts';
import type { PlanSummary } from '../trace.ts';
import { Fields } from './fields.ts';
import { type Holder, type LooseDescription, type PlannedPhase, Program } from './program.ts';

type Floats = Tensor<'float32'>;

/** Returns a part of a learner by its name in the description. */
let holderOf: (learner: TracedLearner, what: string, name: string) => Holder;

/**
 * Trains what a description says, by updates that a pipeline captures once. learner() and the classes
 * that extend it make one.
 */
export class TracedLearner extends Learner {
  readonly scalars: readonly string[];
  /**
   * contiguous vector of all parameters: networks and loose parameters, followed by those that
   * polyak() and copied() describe. Groups of learners average it
   */
  readonly parameters: Floats;
  /**
   * the beginning of `parameters`, without followers: all networks and loose parameters. A policy
   * needs the weights() of one network
   */
  readonly published: Floats;
  readonly #program: Program;
  readonly #fields: Fields;
  readonly #plan: Plan;
  /** int32 [1]: number of the next minibatch. Undefined if nothing has a period */
  readonly #updates: Tensor<'int32'> | undefined;
  /** whether the device can decide at a replay whether a phase runs */
  readonly #guards: boolean;
  /** whether a captured update has several minibatches, whose cycles begin at the first one */
  #whole = false;
  #warned = false;

  static {
    holderOf = (learner, what, name) => learner.#holder(what, name);
  }

  /** Describes the launches of an update on one minibatch as a table, for people. */
  get plan(): PlanSummary {
    return this.#plan;
  }

  /**
   * Makes a learner. A class that extends this one passes describeLearner(…), and options only in
   * tests.
   *
   * @throws as learner()
   */
  constructor(device: Device, description: object, options: object = {}) {
    checkDevice('learner', device);
    if (captures() || device.currentStream.capturing)
      throw stateError(
        'CAPTURE',
        'learner: a capture runs now, and it records only launches; make the learner before the capture',
      );
    const program = new Program(device, description as LooseDescription);
    try {
      const { name, rows, seed, firstUpdate } = program;
      super(name, device, {
        batchSize: rows,
        read: (batch) => this.#read(batch),
        check: (stream, count) => this.#check(stream, count),
        ...(program.draws.length > 0 && {
          draws: program.draws.map(({ name: each, node }) => ({ name: each, shape: node.shape })),
        }),
        drawsByName: false,
        firstUpdate,
        seed,
        settings: settingsOf(program),
      });
    } catch (error) {
      program.close();
      throw error;
    }
    using construction = guardConstruction(this);
    this.#program = own(this, program);
    this.scalars = Object.freeze([...program.scalars]);
    this.parameters = program.vector;
    const end = program.holders.find(({ follower }) => follower)?.offset ?? program.vector.size;
    this.published = program.vector.view({ shape: [end] });
    this.#fields = new Fields(program.name, device, program.rows, program.fields, (tensor) =>
      own(this, tensor),
    );
    this.#plan = own(
      this,
      new Plan(device, program.sections, generatorOf(this) ?? null, options as PlanOptions),
    );
    this.#guards = device.family === 'host';
    const periods = [
      ...program.phases.map(({ every }) => every),
      ...program.holders.map(({ follower }) => (follower?.kind === 'polyak' ? follower.every : 1)),
    ];
    if (periods.some((every) => every > 1))
      this.#updates = own(this, device.allocate({ shape: [1], dtype: 'int32' })).write(
        Int32Array.of(program.firstUpdate),
      );
    for (const text of program.warnings) learnerWarning(`${program.name}: ${text}`);
    installHooks(this, {
      events: Object.fromEntries(
        program.phases.flatMap(({ events }) =>
          events.map(({ name, stepper }) => [name, stepper.gradient.size]),
        ),
      ),
      step: (...args) => this.#step(...args),
      report: (...args) => this.#report(...args),
      watched: () => this.#watched(),
      parts: () => this.#parts(),
    });
    construction.done();
  }

  /**
   * Returns the parameters of a network, an ensemble, a loose parameter or a follower, as a view of
   * `parameters`. A member of an ensemble has a name such as critics.0.
   *
   * @throws {TypeError} for an unknown name
   */
  weights(name: string): Floats {
    return this.#program.view(this.#holder('weights', name));
  }

  /**
   * Returns an optimizer by its name in the description.
   *
   * @throws {TypeError} for an unknown name
   */
  optimizer(name: string): Optimizer {
    const { steppers } = this.#program;
    const found = steppers.find((each) => each.name === name);
    if (found) return found.optimizer;
    const names = steppers.map((each) => each.name).join(', ');
    return refuseType(`optimizer: there is no optimizer '${name}'; optimizers: ${names}`);
  }

  #holder(what: string, name: string): Holder {
    const { holders } = this.#program;
    const found = holders.find((each) => each.name === name) ?? memberOf(holders, name);
    if (found) return found;
    const names = holders.map((each) => each.name).join(', ');
    return refuseType(`${what}: '${name}' is not declared; declared: ${names}`);
  }

  #read(batch: object): { columns: Columns; rows: number } {
    const program = this.#program;
    const read = this.#fields.read(batch);
    if (!this.#warned && Object.hasOwn(batch, 'weights') && !program.reads.has('weights')) {
      this.#warned = true;
      learnerWarning(
        `${program.name}: the batch has importance weights, which update does not read; multiply each row's loss by the field weights`,
      );
    }
    if (Object.hasOwn(batch, 'priorities') && program.priorities < 0)
      refuseType(
        `${program.name}: the batch wants priorities, which update does not return; return priorities, such as error.abs()`,
      );
    return read;
  }

  #check(stream: Stream, count: number): void {
    this.#whole = stream.capturing && count > 1;
    if (!stream.capturing) return;
    for (const { every } of this.#program.phases) {
      if (count % every === 0 || (count === 1 && this.#guards)) continue;
      const one = this.#guards ? '1 or a multiple' : 'a multiple';
      refuseRange(
        `${this.kind}: a captured update must hold whole cycles: its number of minibatches must be ${one} of ${every}, the every of a phase, and it is ${count}`,
      );
    }
  }

  /**
   * Runs `fn` for minibatches whose number is a multiple of `every`. A captured update of one
   * minibatch decides it in each replay, by the count on the device.
   */
  #due(stream: Stream, every: number, context: StepContext, fn: () => void): void {
    if (every === 1) fn();
    else if (this.#whole) {
      if (context.minibatch % every === 0) fn();
    } else if (this.#guards && !(stream instanceof WatchedStream))
      guarded(stream, { word: this.#updates as Tensor<'int32'>, every }, fn);
    else if (context.phase % every === 0) fn();
  }

  #step(stream: Stream, columns: Columns, context: StepContext): void {
    const program = this.#program;
    this.#plan.bind(stream, this.#fields.inputs(stream, columns));
    const draws = new Map<Node, Floats>();
    for (const { name, node } of program.draws) {
      const given = context.given(name);
      if (given) draws.set(node, given);
    }
    const { look } = context;
    for (const phase of program.phases) {
      const last = phase.sections.at(-1) as (typeof phase.sections)[number];
      for (const { section, every } of phase.sections)
        this.#due(stream, every, context, () => {
          const after = look && ((launch: number) => look(`launch ${launch}`));
          this.#plan.emitSection(stream, section, { draws, after });
          if (section === last.section) this.#finish(stream, phase, columns, context, draws);
        });
    }
    this.#follow(stream, context);
    if (this.#updates) stream.launch('count_up', { tensors: [this.#updates] });
  }

  /** Enqueues what follows the sections of a phase: priorities, records and the optimizers' steps. */
  #finish(
    stream: Stream,
    { events, losses, prioritizes }: PlannedPhase,
    columns: Columns,
    context: StepContext,
    draws: ReadonlyMap<Node, Floats>,
  ): void {
    const { outputs } = this.#plan;
    if (prioritizes && columns.priorities)
      convert(stream, columns.priorities, outputs[this.#program.priorities] as Floats);
    let computed = false;
    for (const { name, stepper, loss } of events)
      context.record(name, () => {
        if (!computed) this.#plan.emitSection(stream, losses, { draws });
        computed = true;
        const { gradient, optimizer } = stepper;
        return { loss: (outputs[loss] as Floats).view({ shape: [1] }), gradient, optimizer };
      });
    for (const { stepper } of events) stepper.optimizer.step(stream, stepper.gradient);
  }

  #follow(stream: Stream, context: StepContext): void {
    const { holders, phases, steppers } = this.#program;
    for (const holder of holders) {
      const { follower } = holder;
      if (!follower) continue;
      const source = holders.find(({ name }) => name === follower.of) as Holder;
      const [to, from] = [holder, source].map((each) =>
        this.#program.vector.view({ shape: [each.size], offset: each.offset }),
      ) as [Floats, Floats];
      const { tau, every } = follower;
      const { size } = source;
      const reals = [tau, 1 - tau] as const;
      if (follower.kind === 'copied' || every > 1) {
        const steps = steppers.find((each) => each.holders.includes(source))?.optimizer.steps;
        const counter = follower.kind === 'copied' ? steps : this.#updates;
        const tensors = [to, from, counter as Tensor<'int32'>] as const;
        stream.launch('follow_every', { tensors, wholes: [size, every], reals });
        continue;
      }
      const phase = phases.find(({ events }) =>
        events.some(({ stepper }) => stepper.name === follower.with),
      );
      this.#due(stream, phase?.every ?? 1, context, () =>
        stream.launch('axpby', { tensors: [to, from], wholes: [size], reals }),
      );
    }
  }

  /** Returns the result of each launch, and the optimizer's count by which a report names it. */
  #watched(): WatchedVector[] {
    const { phases, steppers, name } = this.#program;
    const any = steppers[0]?.optimizer.steps ?? this.#updates;
    if (!any) return [];
    const counts = new Map(
      phases.flatMap(({ sections, events }) =>
        sections.map(({ section }) => [section, events[0]?.stepper.optimizer.steps ?? any]),
      ),
    );
    return this.#plan.results().flatMap(({ launch, section, op, line, tensor }) => {
      const steps = counts.get(section);
      if (!steps) return []; // a section of losses, which only records need
      const text = `the result of '${op}' (${line})`;
      const part = { network: name, layer: op, what: line, rank: launch, end: tensor.size, text };
      return [{ event: `launch ${launch}`, x: tensor, steps, parts: [part] }];
    });
  }

  #report(stream: Stream, scalars: Floats, share: number, first: boolean): void {
    const { numbers } = this.#program;
    const { length } = this.scalars;
    if (length === 0) return;
    const reals = [share, first ? 0 : 1] as const;
    stream.launch('axpby', { tensors: [scalars, numbers], wholes: [length], reals });
  }

  #parts(): [string, Part][] {
    const { holders, steppers, numbers } = this.#program;
    const named = (holder: Holder): [string, Part][] => {
      const { name, network, members, offset } = holder;
      if (!network) return [[name, { tensor: this.#program.view(holder) }]];
      const flat = this.parameters;
      if (members === null) return networkParts(name, network, flat, offset);
      return Array.from({ length: members }, (_, j) =>
        networkParts(`${name}.${j}`, network, flat, offset + j * network.parameterCount),
      ).flat();
    };
    return [
      ...holders.flatMap(named),
      ...steppers.flatMap(({ name, optimizer }) => optimizerParts(`optimizers.${name}`, optimizer)),
      ['numbers', { tensor: numbers }],
      ...(this.#updates ? [['updates', this.#counts(this.#updates)] as [string, Part]] : []),
    ];
  }

  /** Saves the number of minibatches. The count on the device is right after replays, too. */
  #counts(word: Tensor<'int32'>): Part {
    return {
      dtype: 'float64',
      size: 1,
      check: ([count]) => {
        checkCount('updates', count, 0, 2 ** 31 - 1);
      },
      read: async (stream) => Float64Array.from(await word.toArray(stream)),
      write: ([count], stream) => {
        word.write(Int32Array.of(count as number), stream);
        setPhase(this, count as number);
      },
    };
  }
}

/** A learner that learner() made. */
export class DescribedLearner extends TracedLearner {
  /**
   * Returns a policy that acts greedily on the outputs of a network. It runs on the calling thread,
   * needs no device, and has no weights until load().
   *
   * @param name a network, or an ensemble, whose first network the policy has
   * @throws {TypeError} for an unknown name, or if a layer has no run()
   * @example
   * const policy = learner.policy('q').load(await learner.weights('q').toArray());
   */
  policy(name: string): MlpPolicy {
    const { network } = holderOf(this, 'policy', name);
    if (!network) return refuseType(`policy: '${name}' is a parameter, and not a network`);
    return new MlpPolicy(network);
  }
}

function optimizerParts(name: string, optimizer: Optimizer): [string, Part][] {
  if (optimizer instanceof Adam) return adamParts(name, optimizer);
  const { direction, steps, learningRate } = optimizer as Sgd;
  return tensorParts(name, { direction, steps, learningRate });
}

/** Returns a member of an ensemble by its name, such as critics.0, or undefined. */
function memberOf(holders: readonly Holder[], name: string): Holder | undefined {
  const [, ensemble, index] = /^(.+)\.(\d+)$/.exec(name) ?? [];
  const holder = holders.find((each) => each.name === ensemble);
  if (!holder?.network || Number(index) >= (holder.members ?? 0)) return undefined;
  const size = holder.network.parameterCount;
  const offset = holder.offset + Number(index) * size;
  return { ...holder, members: null, shape: [size], size, offset };
}

/** Describes a network for settings: its layers and their sizes. */
const describe = (network: Network): string =>
  [...network.layers.map(({ name }) => name), network.inputs, network.outputs].join(' ');

/** Returns the settings that a resumed run must share. */
function settingsOf(program: Program): LearnerSettings {
  const { fields, holders, steppers, hash } = program;
  return {
    batch: Object.fromEntries(
      fields.map(({ name, shape, dtype, scale, shift, gamma }) => [
        name,
        { shape, dtype, scale, shift, ...(gamma !== null && { gamma: gamma ?? 0.99 }) },
      ]),
    ),
    networks: Object.fromEntries(
      holders.map(({ name, network, members, shape, follower }) => [
        name,
        {
          ...(network ? { layers: describe(network), members } : { shape }),
          ...(follower && {
            follows: follower.of,
            tau: follower.tau,
            every: follower.every,
            with: follower.with,
          }),
        },
      ]),
    ),
    optimizers: Object.fromEntries(
      steppers.map(({ name, description, holders: of }) => [
        name,
        { kind: description.kind, of: of.map((each) => each.name) },
      ]),
    ),
    trace: hash,
  };
}
