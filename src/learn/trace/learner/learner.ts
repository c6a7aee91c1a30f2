/** Makes a learner from a description: losses as expressions, whose gradients are derived. */

import { stateError } from '../../../base/errors.ts';
import { checkDevice } from '../../../device/checks.ts';
import type { Device, Tensor } from '../../../device/device.ts';
import { guardConstruction, own } from '../../../device/owner.ts';
import { captures } from '../../../device/stream.ts';
import type { Columns } from '../../batch.ts';
import {
  generatorOf,
  installHooks,
  Learner,
  type LearnerSettings,
  setPhase,
} from '../../learner.ts';
import type { Network } from '../../network/network.ts';
import type { Optimizer } from '../../optimizer.ts';
import { MlpPolicy } from '../../policy.ts';
import { learnerWarning } from '../../state.ts';
import type { PlanOptions } from '../plan/plan.ts';
import { refuseType } from '../tape.ts';
import { Fields } from './fields.ts';
import type { Holder } from './holders.ts';
import { type LooseDescription, Program } from './program.ts';
import { ProgramUpdate } from './update.ts';

type Floats = Tensor<'float32'>;

/** Options of a class that extends TracedLearner. Tests add those of its plan. */
interface TracedOptions extends PlanOptions {
  /** settings that a resumed run must share, in addition to those of the description */
  readonly settings?: LearnerSettings;
  /** throws if a batch does not fit the options of the class */
  checkBatch?(batch: object): void;
}

/** Returns a part of a learner by its name in the description. */
let holderOf: (learner: TracedLearner, what: string, name: string) => Holder;

/** Texts of warnings of fields that a batch has and update does not read. */
const unread: Readonly<Record<string, string>> = {
  weights:
    "importance weights, which update does not read; multiply each row's loss by the field weights",
  nextActionMask:
    'masks of legal actions, which update does not read, so its targets may be values of illegal actions; declare nextActionMask: { mask: n }, and take the next action by where(nextActionMask, values, -Infinity)',
};

/**
 * Trains the networks of a description by updates that a pipeline captures once. learner() and the classes
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
  readonly #update: ProgramUpdate;
  /** fields of batches of which a warning was emitted */
  readonly #warned = new Set<string>();

  static {
    holderOf = (learner, what, name) => learner.#holder(what, name);
  }

  /**
   * Makes a learner. A class that extends this one passes describeLearner(…). Only classes of the
   * library and tests pass options.
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
    const { settings, checkBatch, ...planned } = options as TracedOptions;
    const program = new Program(device, description as LooseDescription);
    try {
      const { name, rows, seed, firstUpdate } = program;
      super(name, device, {
        batchSize: rows,
        read: (batch) => {
          checkBatch?.(batch);
          return this.#read(batch);
        },
        check: (stream, count) => this.#update.check(stream, count),
        ...(program.draws.length > 0 && {
          draws: program.draws.map(({ name: each, node }) => ({ name: each, shape: node.shape })),
        }),
        firstUpdate,
        seed,
        settings: { ...settingsOf(program), ...settings },
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
    this.#update = own(
      this,
      new ProgramUpdate(device, program, {
        generator: generatorOf(this) ?? null,
        loaded: (updates) => setPhase(this, updates),
        ...planned,
      }),
    );
    for (const text of program.warnings) learnerWarning(`${program.name}: ${text}`);
    installHooks(this, {
      events: this.#update.events,
      plan: this.#update.plan,
      step: (stream, columns, context) =>
        this.#update.step(
          stream,
          this.#fields.inputs(stream, columns),
          columns.priorities,
          context,
        ),
      report: (...args) => this.#update.report(...args),
      watched: () => this.#update.watched(),
      parts: () => this.#update.parts(),
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
    for (const [field, text] of Object.entries(unread)) {
      if (this.#warned.has(field) || !Object.hasOwn(batch, field) || program.reads.has(field))
        continue;
      this.#warned.add(field);
      learnerWarning(`${program.name}: the batch has ${text}`);
    }
    if (Object.hasOwn(batch, 'priorities') && program.priorities < 0)
      refuseType(
        `${program.name}: the batch wants priorities, which update does not return; return priorities, such as error.abs()`,
      );
    return read;
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
