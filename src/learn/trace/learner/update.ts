/** Enqueues the updates of a program: sections, records, the optimizers' steps and followers. */
import { checkCount } from '../../../base/checks.ts';
import type { Device, Stream, Tensor } from '../../../device/device.ts';
import type { DeviceGenerator } from '../../../device/graph/generator.ts';
import { guarded } from '../../../device/guarded.ts';
import { guardConstruction, Owner, own } from '../../../device/owner.ts';
import { Adam } from '../../adam.ts';
import { convert } from '../../convert.ts';
import type { StepContext } from '../../learner.ts';
import { WatchedStream } from '../../non-finite.ts';
import type { Optimizer } from '../../optimizer.ts';
import type { Sgd } from '../../sgd.ts';
import { adamParts, networkParts, type Part, tensorParts } from '../../state.ts';
import type { WatchedVector } from '../../watch.ts';
import { Plan, type PlanOptions } from '../plan/plan.ts';
import { type Node, refuseRange } from '../tape.ts';
import type { Holder, PlannedPhase, Program } from './program.ts';

type Floats = Tensor<'float32'>;

export interface ProgramUpdateOptions extends PlanOptions {
  /** draws the random numbers, or null if the program draws none */
  readonly generator: DeviceGenerator | null;
  /** called with the number of the next minibatch when a state is loaded */
  loaded?(updates: number): void;
  /**
   * whether the device counts the minibatches, default true. Otherwise captured updates hold whole
   * cycles, and the learner counts the others
   */
  readonly counts?: boolean;
  /** whether a watch checks the layers of networks only, default false */
  readonly watchesLayers?: boolean;
}

/** The plan of a program on a device, and the order in which an update enqueues its sections. */
export class ProgramUpdate extends Owner {
  readonly plan: Plan;
  /** length of the gradient of each event that a step may record, by the event's name */
  readonly events: Readonly<Record<string, number>>;
  readonly #program: Program;
  readonly #watchesLayers: boolean;
  readonly #loaded: ((updates: number) => void) | undefined;
  /** int32 [1]: number of the next minibatch. Undefined if nothing has a period, or without `counts` */
  readonly #updates: Tensor<'int32'> | undefined;
  /** whether the device can decide at a replay whether a phase runs */
  readonly #guards: boolean;
  /** whether a captured update has several minibatches, whose cycles begin at the first one */
  #whole = false;

  constructor(
    device: Device,
    program: Program,
    { generator, loaded, counts = true, watchesLayers = false, ...options }: ProgramUpdateOptions,
  ) {
    super('this learner');
    this.#program = program;
    this.#watchesLayers = watchesLayers;
    this.#loaded = loaded;
    this.#guards = counts && device.family === 'host';
    using construction = guardConstruction(this);
    this.plan = own(this, new Plan(device, program.sections, generator, options));
    const periods = [
      ...program.phases.map(({ every }) => every),
      ...program.holders.map(({ follower }) => (follower?.kind === 'polyak' ? follower.every : 1)),
    ];
    if (counts && periods.some((every) => every > 1))
      this.#updates = own(this, device.allocate({ shape: [1], dtype: 'int32' })).write(
        Int32Array.of(program.firstUpdate),
      );
    this.events = Object.fromEntries(
      program.phases.flatMap(({ events }) =>
        events.map(({ name, stepper }) => [name, stepper.gradient.size]),
      ),
    );
    construction.done();
  }

  /** Throws if an update cannot have this number of minibatches. */
  check(stream: Stream, count: number): void {
    this.#whole = stream.capturing && count > 1;
    if (!stream.capturing) return;
    for (const { every } of this.#program.phases) {
      if (count % every === 0 || (count === 1 && this.#guards)) continue;
      const one = this.#guards ? '1 or a multiple' : 'a multiple';
      refuseRange(
        `${this.#program.name}: a captured update must hold whole cycles: its number of minibatches must be ${one} of ${every}, the every of a phase, and it is ${count}`,
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

  /**
   * Enqueues one minibatch.
   *
   * @param inputs a tensor for each field of the program
   * @param priorities output, float32 [rows], or undefined
   */
  step(
    stream: Stream,
    inputs: Readonly<Record<string, Tensor>>,
    priorities: Floats | undefined,
    context: StepContext,
  ): void {
    const program = this.#program;
    this.plan.bind(stream, inputs);
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
          this.plan.emitSection(stream, section, { draws, after });
          if (section === last.section) this.#finish(stream, phase, priorities, context, draws);
        });
    }
    this.#follow(stream, context);
    if (this.#updates) stream.launch('count_up', { tensors: [this.#updates] });
  }

  /** Enqueues what follows the sections of a phase: priorities, records and the optimizers' steps. */
  #finish(
    stream: Stream,
    { events, losses, priorities: section }: PlannedPhase,
    priorities: Floats | undefined,
    context: StepContext,
    draws: ReadonlyMap<Node, Floats>,
  ): void {
    const { outputs } = this.plan;
    if (section >= 0 && priorities) {
      this.plan.emitSection(stream, section, { draws });
      convert(stream, priorities, outputs[this.#program.priorities] as Floats);
    }
    let computed = false;
    for (const { name, stepper, loss } of events)
      context.record(name, () => {
        if (!computed) this.plan.emitSection(stream, losses, { draws });
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
      const source = this.#program.holder(follower.of);
      const [to, from] = [this.#program.flat(holder), this.#program.flat(source)];
      const { tau, every } = follower;
      const { size } = source;
      const reals = [tau, 1 - tau] as const;
      const steps = steppers.find((each) => each.holders.includes(source))?.optimizer.steps;
      const counter = follower.kind === 'copied' ? steps : this.#updates;
      if (counter && (follower.kind === 'copied' || every > 1)) {
        stream.launch('follow_every', {
          tensors: [to, from, counter],
          wholes: [size, every],
          reals,
        });
        continue;
      }
      const phase = phases.find(({ events }) =>
        events.some(({ stepper }) => stepper.name === follower.with),
      );
      this.#due(stream, phase?.every ?? every, context, () =>
        stream.launch('axpby', { tensors: [to, from], wholes: [size], reals }),
      );
    }
  }

  /** Returns the results of the launches, and the optimizer's count by which a report names them. */
  watched(): WatchedVector[] {
    const { phases, steppers, name } = this.#program;
    const any = steppers[0]?.optimizer.steps ?? this.#updates;
    if (!any) return [];
    const counts = new Map(
      phases.flatMap(({ sections, events }) =>
        sections.map(({ section }) => [section, events[0]?.stepper.optimizer.steps ?? any]),
      ),
    );
    return this.plan.results().flatMap(({ launch, section, op, line, tensor, network, place }) => {
      const steps = counts.get(section);
      if (!steps) return []; // a section that not every update needs
      if (this.#watchesLayers && !place) return [];
      const end = tensor.size;
      const part =
        network !== null && place
          ? { network: this.#named(network, place.member), end, ...place }
          : {
              ...{ network: name, layer: op, what: line, end },
              text: `the result of '${op}' (${line})`,
            };
      return [{ event: `launch ${launch}`, x: tensor, steps, parts: [part] }];
    });
  }

  /** Names a network, or one of an ensemble, as the state does. */
  #named(network: string, member: number): string {
    return this.#program.holder(network).members === null ? network : `${network}.${member}`;
  }

  /** Adds `share` times the scalars of the last step to `scalars`, or overwrites these if `first`. */
  report(stream: Stream, scalars: Floats, share: number, first: boolean): void {
    const { numbers, scalars: names } = this.#program;
    const { length } = names;
    if (length === 0) return;
    const reals = [share, first ? 0 : 1] as const;
    stream.launch('axpby', { tensors: [scalars, numbers], wholes: [length], reals });
  }

  /** Returns the parts of the state, except the generator. */
  parts(): [string, Part][] {
    const { holders, steppers, numbers } = this.#program;
    const named = (holder: Holder): [string, Part][] => {
      const { name, network } = holder;
      if (!network) return [[name, { tensor: this.#program.view(holder) }]];
      return networksParts(name, holder, this.#program.flat(holder));
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
        this.#loaded?.(count as number);
      },
    };
  }
}

/** Returns the parameters of a network, or of all networks of an ensemble, as parts. */
export function networksParts(
  name: string,
  { network, members }: Holder,
  flat: Floats,
): [string, Part][] {
  if (!network) return [];
  if (members === null) return networkParts(name, network, flat);
  return Array.from({ length: members }, (_, j) =>
    networkParts(`${name}.${j}`, network, flat, j * network.parameterCount),
  ).flat();
}

function optimizerParts(name: string, optimizer: Optimizer): [string, Part][] {
  if (optimizer instanceof Adam) return adamParts(name, optimizer);
  const { direction, steps, learningRate } = optimizer as Sgd;
  return tensorParts(name, { direction, steps, learningRate });
}
