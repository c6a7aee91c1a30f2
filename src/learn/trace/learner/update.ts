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
import { type Optimizer, stepLaunch } from '../../optimizer.ts';
import type { Sgd } from '../../sgd.ts';
import { adamParts, networkParts, type Part, tensorParts } from '../../state.ts';
import type { WatchedVector } from '../../watch.ts';
import { Plan, type PlanOptions } from '../plan/plan.ts';
import { type Node, refuseRange } from '../tape.ts';
import type { Holder } from './holders.ts';
import type { PlannedPhase, Stepper } from './phases.ts';
import type { Program } from './program.ts';
import { StepEnd } from './step-end.ts';

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
  /** whether `step_end` may count, sum and draw for a whole step, which only tests turn off */
  readonly #together: boolean;
  readonly #end: StepEnd;
  /** optimizers whose count is read within an update, so that each step is counted at once */
  readonly #countedAtOnce: ReadonlySet<Stepper>;
  /**
   * index of the priorities among the plan's outputs if launches may write them to the caller's memory, or
   * −1. Launches of other phases may compute the priorities of a delayed phase in each minibatch
   */
  readonly #redirects: number;
  /** whether a captured update has several minibatches, whose cycles begin at the first one */
  #whole = false;
  /** the step that runs now: what `step_end` has to do for it */
  #step = { together: false, due: 0, blocks: 0, steps: new Map<Stepper, number>() };

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
    this.#together = options.late ?? true;
    const delayed = program.phases.some(({ priorities, every }) => priorities >= 0 && every > 1);
    this.#redirects = delayed ? -1 : program.priorities;
    using construction = guardConstruction(this);
    this.plan = own(this, new Plan(device, program.sections, generator, options));
    const { phases, holders, steppers, counters } = program;
    const periods = [
      ...phases.map(({ every }) => every),
      ...holders.map(({ follower }) => (follower?.kind === 'polyak' ? follower.every : 1)),
    ];
    if (counts && periods.some((every) => every > 1))
      this.#updates = counters
        .view({ shape: [1], offset: 0 })
        .write(Int32Array.of(program.firstUpdate));
    const stepped = phases.flatMap(({ every, events }) =>
      events.map(({ stepper }) => ({ stepper, every })),
    );
    this.#countedAtOnce = new Set(
      steppers.filter((stepper) => {
        const times = stepped.filter((each) => each.stepper === stepper).length;
        return (stepper.description.schedule && times > 1) || this.#countsFor(stepper);
      }),
    );
    this.#end = own(
      this,
      new StepEnd(device, program, this.plan, [
        ...(this.#updates ? [{ counter: 0, every: 1 }] : []),
        ...stepped
          .filter(({ stepper }) => !this.#countedAtOnce.has(stepper))
          .map(({ stepper: { counter }, every }) => ({ counter, every })),
      ]),
    );
    this.events = Object.fromEntries(
      phases.flatMap(({ events }) =>
        events.map(({ name, stepper }) => [name, stepper.gradient.size]),
      ),
    );
    construction.done();
  }

  /** Returns whether a follower that is a launch of its own reads the count of an optimizer. */
  #countsFor({ holders, follow }: Stepper): boolean {
    return this.#program.holders.some(
      (holder) =>
        holder.follower?.kind === 'copied' &&
        holders.some(({ name }) => name === holder.follower!.of) &&
        !(this.#together && follow?.holder === holder),
    );
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
   * minibatch decides it in each replay, by the count on the device. `fn` gets whether `step_end`
   * counts and sums for it.
   */
  #due(stream: Stream, every: number, context: StepContext, fn: (together: boolean) => void): void {
    const { together } = this.#step;
    if (every > 1 && !this.#whole && this.#guards && !(stream instanceof WatchedStream)) {
      guarded(stream, { word: this.#updates as Tensor<'int32'>, every }, () => fn(false));
      return;
    }
    const count = this.#whole ? context.minibatch : context.phase;
    if (count % every !== 0) return;
    this.#step.due |= this.#end.bitOf(every);
    fn(together);
  }

  /**
   * Enqueues one minibatch, except its end, which report() enqueues.
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
    const { look, records } = context;
    // A record or a watch reads sums and counts within the step.
    const together = this.#together && !look && !records && !(stream instanceof WatchedStream);
    this.#step = { together, due: this.#end.bitOf(1), blocks: 0, steps: new Map() };
    const at = this.#redirects;
    const to = (together && priorities) || null;
    const direct = at >= 0 && this.plan.redirect(at, to, [...draws.values()]);
    const after = look && ((launch: number) => look(`launch ${launch}`));
    for (const [p, phase] of program.phases.entries()) {
      const last = phase.sections.at(-1) as (typeof phase.sections)[number];
      for (const { section, every } of phase.sections)
        this.#due(stream, every, context, (ended) => {
          this.#step.blocks += this.plan.emitSection(stream, section, {
            ...{ draws, after, advance: !ended },
          });
          if (!ended) this.plan.emitLate(stream, section, { after });
          if (section === last.section)
            this.#finish(stream, p, { priorities, direct, context, draws, ended });
        });
    }
    this.#follow(stream, context);
  }

  /** Enqueues what follows the sections of a phase: priorities, records and the optimizers' steps. */
  #finish(
    stream: Stream,
    p: number,
    given: {
      priorities: Floats | undefined;
      /** whether the launches write the priorities to the caller's memory */
      direct: boolean;
      context: StepContext;
      draws: ReadonlyMap<Node, Floats>;
      ended: boolean;
    },
  ): void {
    const { priorities, direct, context, draws, ended } = given;
    const { events, losses, priorities: section } = this.#program.phases[p] as PlannedPhase;
    const { outputs } = this.plan;
    if (section >= 0 && priorities) {
      this.plan.emitSection(stream, section, { draws });
      if (!direct) convert(stream, priorities, outputs[this.#program.priorities] as Floats);
    }
    let computed = false;
    for (const { name, stepper, loss } of events)
      context.record(name, () => {
        if (!computed) this.plan.emitSection(stream, losses, { draws });
        computed = true;
        const { gradient, optimizer } = stepper;
        return { loss: (outputs[loss] as Floats).view({ shape: [1] }), gradient, optimizer };
      });
    for (const { stepper } of events) this.#stepOne(stream, stepper, p, ended);
  }

  /** Enqueues an optimizer's step, with the follower that it moves. */
  #stepOne(stream: Stream, stepper: Stepper, p: number, ended: boolean): void {
    const { optimizer, gradient, follow } = stepper;
    const { steps } = this.#step;
    const before = steps.get(stepper) ?? 0;
    const moves = this.#together && follow?.phase === p;
    stepLaunch(optimizer, stream, gradient, {
      ahead: before + 1,
      ...(moves && { follow: { ...follow, target: this.#program.flat(follow.holder) } }),
    });
    if (ended && !this.#countedAtOnce.has(stepper)) steps.set(stepper, before + 1);
    else stream.launch('count_up', { tensors: [optimizer.steps] });
  }

  /** Moves the followers that no optimizer moves in its launch. */
  #follow(stream: Stream, context: StepContext): void {
    const { holders, phases, steppers } = this.#program;
    for (const holder of holders) {
      const { follower } = holder;
      if (!follower) continue;
      if (this.#together && steppers.some(({ follow }) => follow?.holder === holder)) continue;
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

  /**
   * Ends the last step. Adds `share` times its scalars to `scalars`, or overwrites these if `first`, and
   * counts the step.
   */
  report(stream: Stream, scalars: Floats, share: number, first: boolean): void {
    const { together, due, blocks } = this.#step;
    if (!together && this.#updates) stream.launch('count_up', { tensors: [this.#updates] });
    const done = together ? due : 0;
    if (together || scalars.size > 0)
      this.#end.launch(stream, { out: scalars, share, first, due: done, blocks });
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
