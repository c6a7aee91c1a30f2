/** Runs the function of a description, and checks the phases that it returns. */
import type { Tensor } from '../../../device/device.ts';
import type { Optimizer } from '../../optimizer.ts';
import { Expression, expressionOf, nodeFrom, nodeOf, reshaped } from '../expression.ts';
import { countOf, shown, sizeOf } from '../shapes.ts';
import { checkOptions, type Node, refuseRange, refuseType, type Tape, userLine } from '../tape.ts';
import { type BatchField, inputOf } from './fields.ts';
import { type Holder, list, plain } from './holders.ts';
import { applied, MAX_EVERY } from './networks.ts';
import type { OptimizerDescription } from './optimizers.ts';

type Floats = Tensor<'float32'>;

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

/** A loss, and the optimizer whose step lowers it. */
interface Loss {
  readonly stepper: Stepper;
  readonly node: Node;
}
/** A phase as `update` returns it, checked. */
export interface CheckedPhase {
  readonly every: number;
  readonly losses: readonly Loss[];
  readonly scalars: readonly (readonly [string, Node])[];
  readonly priorities: Node | null;
}

/** The trace of an update, and the memory that its ops read. */
export interface UpdateTrace {
  readonly tape: Tape;
  readonly memories: ReadonlyMap<Holder, Node>;
  /** memory of the scalars that `update` gets as parameters, by name */
  readonly kept: ReadonlyMap<string, Node>;
}

/** The parts of a program that its phases name. */
interface Declared {
  readonly rows: number;
  readonly fields: readonly BatchField[];
  readonly holders: readonly Holder[];
  readonly steppers: readonly Stepper[];
}

/** Calls the user's function, and checks the phases that it returns. */
export function phasesOf(
  program: Declared,
  { tape, memories, kept }: UpdateTrace,
  update: (...given: readonly unknown[]) => unknown,
): readonly CheckedPhase[] {
  const { rows, fields } = program;
  const networks: Record<string, unknown> = {};
  const parameters: Record<string, unknown> = {};
  for (const [name, memory] of kept) parameters[name] = expressionOf(memory);
  for (const [{ name, network, members }, memory] of memories) {
    if (network) networks[name] = applied(name, network, members, memory);
    else parameters[name] = expressionOf(memory);
  }
  const batch = Object.fromEntries(
    fields.map((field) => [field.name, expressionOf(inputOf(tape, rows, field))]),
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
    checkPhase(program, tape, phase, phases.length > 1 ? `phase ${i}` : 'update'),
  );
  if (checked.filter(({ priorities }) => priorities).length > 1)
    refuseType('learner: two phases return priorities; one of them does');
  return checked;
}

function checkPhase(
  { rows, holders, steppers }: Declared,
  tape: Tape,
  given: unknown,
  what: string,
): CheckedPhase {
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
    const stepper = steppers.find((each) => each.name === name);
    if (!stepper) {
      const holder = holders.find((each) => each.name === name);
      return refuseType(
        holder?.follower
          ? `learner: ${what} minimizes '${name}', which follows '${holder.follower.of}'; minimize that`
          : holder
            ? `learner: ${what} minimizes '${name}', which has no optimizer; add optimizers: { ${name}: adam() }`
            : `learner: ${what} minimizes '${name}', which is not declared; optimizers: ${list(steppers.map((each) => each.name))}`,
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
    if (shape.length < 1 || shape.length > 2 || shape[0] !== rows || (shape[1] ?? 1) !== 1)
      refuseRange(
        `learner: ${what}: priorities must be [${rows}], one number a row, got ${shown(shape)}`,
      );
    priorities = nodeFrom(reshaped(expressionOf(priorities), [rows]));
  }
  return { every: every as number, losses, scalars, priorities };
}
