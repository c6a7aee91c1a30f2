/** Tests concatenations that take over the memory of an earlier one, and write the parts that differ. */
import { expect } from 'chai';
import { concat, type Expression } from '../../src/entries/trace.ts';
import { setting } from '../rig/setting.ts';
import { ON_HOST } from '../rig/tested-device.ts';
import { Choices, computed, difference, type Inputs, type Program, ran } from './rig.ts';

const COUNT = ON_HOST ? setting({ short: 25, all: 60, long: 300 }) : 15;
const [ROWS, COLUMNS] = [3, 2];

const choices = new Choices(5);
const floats = (shape: readonly number[]) => ({
  shape,
  values: choices.numbers(shape.reduce((n, length) => n * length, 1)),
});
const inputs: Inputs = {
  x: floats([ROWS, COLUMNS]),
  y: floats([ROWS, COLUMNS]),
  z: floats([ROWS, COLUMNS]),
  w: floats([2 * COLUMNS, 2]),
};

/** Draws a program that concatenates a few values again and again. */
function drawn(seed: number): Program {
  return ({ x, y, z }) => {
    const random = new Choices(seed);
    const pool = [x!, y!, z!];
    const results: Record<string, Expression> = {};
    // A value of the start is drawn as often as all later ones.
    const pick = () =>
      random.chance(0.5) ? pool[random.below(2)]! : pool[random.below(pool.length)]!;
    for (let i = 0; i < 10; i++) {
      const axis = random.below(2);
      const parts = Array.from({ length: 2 + random.below(2) }, pick);
      const whole = concat(axis, ...parts) as Expression;
      const length = axis === 0 ? ROWS : COLUMNS;
      const last = whole.slice(axis, (parts.length - 1) * length);
      const made = random.of([
        () => whole.slice(axis, 0, length).mul(last as never),
        () => last.tanh(),
        () => concat(axis, last, whole.slice(axis, 0, length)).slice(axis, 0, length),
        () => last.sub(whole.mean() as never),
        () => last.cumsum({ axis: 0 }),
      ])() as Expression;
      if (random.chance(0.2)) results[`whole${i}`] = whole;
      pool.push(made);
    }
    return { ...results, last: pool.at(-1)!, before: pool.at(-2)! };
  };
}

/** Returns how many parts a plan copies. */
const copies = (plan: string): number =>
  plan
    .split('\n')
    .slice(3)
    .flatMap((line) => line.split(/ {2,}/)[2]!.split('+'))
    .filter((op) => op === 'concat').length;

describe('concatenations', () => {
  const checked = async (program: Program): Promise<number> => {
    const found = await ran(inputs, program, { gap: 2 });
    expect(difference(found), found.plan).to.equal(null);
    const [plain, poisoned] = [
      await computed(inputs, program),
      await computed(inputs, program, { poison: true }),
    ];
    expect(poisoned.bits, found.plan).to.deep.equal(plain.bits);
    return copies(found.plan);
  };

  it('a later one writes only the parts that differ', async () => {
    const made = await checked(({ x, y, z, w }) => {
      const first = concat(1, x!, y!).matmul(w as never);
      return {
        sum: concat(1, x!, z!)
          .matmul(w as never)
          .add(first as never),
      };
    });
    expect(made).to.equal(3);
  });

  it('one whose parts are all in its place writes nothing', async () => {
    const made = await checked(({ x, y, w }) => {
      const first = concat(1, x!, y!).matmul(w as never);
      const second = concat(1, x!.detach(), y!)
        .square()
        .matmul(w as never);
      return { sum: first.add(second as never) };
    });
    expect(made).to.equal(2);
  });

  it('one has its own memory if a later op reads the earlier one', async () => {
    const made = await checked(({ x, y, z, w }) => {
      const first = concat(1, x!, y!);
      const second = concat(1, x!, z!);
      return { product: second.mul(first).matmul(w as never) };
    });
    expect(made).to.equal(4);
  });

  it('one has its own memory if the earlier one is a result', async () => {
    const made = await checked(({ x, y, z }) => {
      const first = concat(1, x!, y!);
      return { first, mean: concat(1, x!, z!).mean() };
    });
    expect(made).to.equal(4);
  });

  it('one has its own memory if an equal part is in another place', async () => {
    const made = await checked(({ x, y, z }) => ({
      sum: concat(1, x!, y!)
        .mean()
        .add(concat(1, z!, x!).mean()),
    }));
    expect(made).to.equal(4);
  });

  it('one of the same parts along another axis has its own memory', async () => {
    const made = await checked(({ x, y, w }) => {
      const first = concat(1, x!, x!)
        .matmul(w as never)
        .mean();
      return { sum: concat(0, x!, y!).mean().add(first) };
    });
    expect(made).to.equal(4);
  });

  it('parts that are computed before the last use of the earlier one do not move into it', async () => {
    const made = await checked(({ x, y, z }) => {
      const first = concat(0, x!, y!);
      const running = z!.cumsum({ axis: 0 });
      const mean = first.mean();
      return { sum: concat(0, x!, running).square().mean().add(mean) };
    });
    expect(made).to.equal(3);
  });

  it('parts that are computed before the last use are copied into it', async () => {
    const made = await checked(({ x, y, z }) => {
      const first = concat(0, x!, y!, z!);
      const running = z!.cumsum({ axis: 0 });
      const mean = first.mean();
      return { sum: concat(0, x!, y!, running).square().mean().add(mean) };
    });
    expect(made).to.equal(4);
  });

  it('dense copies of the earlier one do not serve the later one', async () => {
    const made = await checked(({ x, y, z }) => {
      const turned = (whole: Expression) => whole.transpose([1, 0]).reshape([2 * ROWS * COLUMNS]);
      const [first, second] = [y!, z!].map((part) => turned(concat(0, x!, part)).cumsum());
      return { sum: first!.add(second! as never) };
    });
    expect(made).to.equal(3);
  });

  it('an earlier one that is a part of a greater one leaves no memory', async () => {
    await checked(({ x, y, z }) => {
      const outer = concat(0, concat(1, x!, y!).reshape([2 * ROWS, COLUMNS]), z!);
      return { outer, later: concat(1, x!, z!).mul(2) };
    });
  });

  it(`${COUNT} random programs agree with the interpreter, also with poisoned memory`, async () => {
    for (let seed = 0; seed < COUNT; seed++) {
      const program = drawn(seed);
      const found = await ran(inputs, program, { gap: 1 });
      expect(difference(found), `seed ${seed}\n${found.plan}`).to.equal(null);
      const [plain, poisoned] = [
        await computed(inputs, program),
        await computed(inputs, program, { poison: true }),
      ];
      expect(poisoned.bits, `seed ${seed}\n${found.plan}`).to.deep.equal(plain.bits);
    }
  });
});
