/** Draws random programs of elementwise ops, which a plan joins into chains. */
import { concat, type Expression, grad, huber, max, min, where } from '../../src/entries/trace.ts';
import { Choices, type Computed, computed, type Inputs, type Program } from './rig.ts';

const unaries = [
  'abs',
  'neg',
  'tanh',
  'sigmoid',
  'relu',
  'silu',
  'elu',
  'square',
  'exp',
  'sqrt',
  'log',
  'reciprocal',
  'floor',
  'cos',
] as const;
type Two = (a: Expression, b: Expression) => Expression;
const binaries: readonly Two[] = [
  (a, b) => a.add(b as never),
  (a, b) => a.sub(b as never),
  (a, b) => a.mul(b as never),
  (a, b) => a.div(b as never),
  (a, b) => min(a, b as never),
  (a, b) => max(a, b as never),
  (a, b) => a.lt(b as never),
  (a, b) => where(a.gt(0.25), a, b as never),
];
const singles: readonly ((x: Expression, choices: Choices) => Expression)[] = [
  (x, choices) => x[choices.of(unaries)](),
  (x, choices) => x[choices.of(unaries)](),
  (x) => x.clamp(-0.5, 0.75),
  (x) => huber(x, 0.5),
  (x) => x.mul(1.5).add(-0.25),
  (x) => x.pow(2.5),
  (x) => x.add(Number.NEGATIVE_INFINITY).max(0.5) as Expression,
];

export interface Elementwise {
  readonly inputs: Inputs;
  readonly program: Program;
  readonly gap: number;
}

/** Draws a program whose values have one shape of up to three dimensions, or broadcast to it. */
export function elementwise(seed: number): Elementwise {
  const choices = new Choices(seed + 1);
  const [m, n] = choices.of([
    [5, 7],
    [1, 9],
    [6, 1],
    [3, 520],
    [40, 33],
  ]) as [number, number];
  const shapes = {
    x: [m, n],
    y: [m, n],
    row: [1, n],
    column: [m, 1],
    one: [1],
    turned: [n, m],
    deep: [2, m, n],
  };
  const inputs = Object.fromEntries(
    Object.entries(shapes).map(([name, shape]) => {
      const values = choices.numbers(shape.reduce((size, length) => size * length, 1));
      const others = [Number.NaN, Number.POSITIVE_INFINITY, -0, 0];
      return [
        name,
        { shape, values: values.map((x) => (choices.chance(0.02) ? choices.of(others) : x)) },
      ];
    }),
  );
  const program: Program = (given) => {
    const drawn = new Choices(seed);
    const { turned, ...rest } = given;
    const all: Expression[] = [...Object.values(rest), turned!.transpose([1, 0])];
    const steps = 3 + drawn.below(25);
    for (let i = 0; i < steps; i++) {
      const recent = drawn.chance(0.75) ? all.slice(-4) : all;
      const x = drawn.of(recent);
      const dice = drawn.below(20);
      if (dice === 0) all.push(x.sum({ axis: x.shape.length - 1, keep: true }).mul(0.125));
      else if (dice === 1) all.push(x.reshape([-1]).reshape(x.shape).sin());
      else if (dice === 2) {
        // Two values in one buffer, of which later ops read a part.
        const axis = x.shape.length - 1;
        const from = drawn.below(x.shape[axis]! + 1);
        const both = concat(axis, x.neg(), x.tanh());
        all.push(both.slice(axis, from, from + x.shape[axis]!).mul(2));
      } else if (dice < 10) all.push(drawn.of(singles)(x, drawn));
      else all.push(drawn.of(binaries)(x, drawn.of(drawn.chance(0.5) ? recent : all)));
    }
    const last = all.slice(-3);
    const results = Object.fromEntries(
      Array.from({ length: 1 + drawn.below(4) }, (_, i) => [`r${i}`, drawn.of(all.slice(6))]),
    );
    if (drawn.chance(0.5)) return { ...results, last: last.at(-1)! };
    const wrt = [given.x!, given.row!, given.column!, given.deep!];
    const loss = [...last, ...wrt].reduce(
      (sum, each) => sum.add(each.mean()),
      given.one!.sum() as Expression,
    );
    const { gradients } = grad(loss as never, wrt);
    return { ...results, ...Object.fromEntries(gradients.map((d, i) => [`d${i}`, d])) };
  };
  return { inputs, program, gap: seed % 3 };
}

/** Returns what differs between a plan with chains and one without, or null, and both plans. */
export async function changedByChain(
  seed: number,
): Promise<{ changed: string | null; with: Computed; without: Computed }> {
  const { inputs, program, gap } = elementwise(seed);
  const without = await computed(inputs, program, { gap, chains: false });
  const poisoned = await computed(inputs, program, { gap, poison: true });
  const found = await computed(inputs, program, { gap });
  const changed = Object.keys(found.bits).find(
    (name) => found.bits[name] !== without.bits[name] || poisoned.bits[name] !== without.bits[name],
  );
  return { changed: changed ?? null, with: found, without };
}
