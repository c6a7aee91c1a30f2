/** Draws of a plan that are joined into one launch. */
import { expect } from 'chai';
import { DeviceGenerator } from '../../src/entries/graph.ts';
import { normal, uniform } from '../../src/entries/trace.ts';
import { openDevice, type Tensor } from '../../src/index.ts';
import { type Expression, full, nodeFrom } from '../../src/learn/trace/expression.ts';
import { Plan, type Section } from '../../src/learn/trace/plan/plan.ts';
import { type Node, recording, Tape } from '../../src/learn/trace/tape.ts';
import { TESTED } from '../rig/tested-device.ts';
import { Choices } from './rig.ts';

type Floats = Tensor<'float32'>;

/** A section with the draws of its results. */
interface Drawing {
  readonly draws: () => readonly Expression[];
  readonly every?: number;
  readonly optional?: boolean;
}

/** A plan whose results are its draws plus 0, so that no draw is a result itself. */
class Drawn {
  readonly device = openDevice(TESTED);
  readonly generator = new DeviceGenerator(this.device, { seed: 5 });
  readonly plan: Plan;
  readonly nodes: readonly Node[];

  constructor(sections: readonly Drawing[], heads: boolean) {
    const tape = new Tape();
    const drawn = recording(tape, () => sections.map(({ draws }) => draws()));
    const planned = sections.map(({ draws, ...section }, s): Section => {
      const outputs = drawn[s]!.map((each) => ({
        node: nodeFrom(each.add(full(tape, 0, []))),
      }));
      return { outputs, ...section };
    });
    this.nodes = drawn.flat().map(nodeFrom);
    this.plan = new Plan(this.device, planned, this.generator, { heads, poison: true });
  }
  close(): void {
    this.plan.close();
    this.generator.close();
  }
  get draws(): number {
    return String(this.plan).match(/ random_/g)!.length;
  }
  /** Runs some sections, and returns all results and the state of the generator as text. */
  async run(sections: readonly number[], given: readonly number[] = []): Promise<string> {
    const stream = this.device.currentStream;
    const draws = new Map<Node, Floats>();
    const numbers = new Choices(3);
    for (const i of given) {
      const { shape } = this.nodes[i]!;
      const size = shape.reduce((a, b) => a * b, 1);
      const values = Float32Array.from(numbers.numbers(size));
      draws.set(this.nodes[i]!, this.device.allocate({ shape: [...shape] }).write(values));
    }
    this.plan.bind(stream, {});
    for (const section of sections)
      expect(this.plan.emitSection(stream, section, { draws })).to.equal(0);
    const results = await Promise.all(this.plan.outputs.map((each) => each.toArray()));
    const { offset } = await this.generator.state();
    for (const tensor of draws.values()) tensor.close();
    return `${results.map((each) => new Uint32Array(each.buffer, each.byteOffset, each.length))} ${offset}`;
  }
}

/** Returns the numbers of launches that draw in both plans, whose runs must be equal. */
async function compared(
  sections: readonly Drawing[],
  runs: readonly (readonly number[])[],
  given: readonly number[] = [],
): Promise<[number, number]> {
  const both = [true, false].map((heads) => new Drawn(sections, heads));
  const seen: string[] = [];
  for (const run of runs) {
    const [found, wanted] = [await both[0]!.run(run, given), await both[1]!.run(run, given)];
    expect(found).to.equal(wanted);
    seen.push(found);
  }
  expect(new Set(seen).size).to.equal(seen.length);
  for (const each of both) each.close();
  return [both[0]!.draws, both[1]!.draws];
}

describe('joined draws', () => {
  const odd = () => [normal([3]), normal([4, 2]), normal([5]), normal([1])] as Expression[];

  it('draws of odd sizes are one launch with the numbers of single draws', async () => {
    expect(await compared([{ draws: odd }], [[0], [0], [0]])).to.deep.equal([1, 4]);
  });

  it('draws of other distributions stay apart', async () => {
    const draws = () =>
      [
        ...[normal([3]), normal([2]), uniform([5]), uniform([2, 3])],
        ...[normal([3], { deviation: 2 }), normal([3], { mean: 1 }), normal([7], { mean: 1 })],
      ] as Expression[];
    expect(await compared([{ draws }], [[0], [0]])).to.deep.equal([4, 7]);
  });

  it('draws in several sections are one launch at the place of the first one', async () => {
    const sections = [{ draws: odd }, { draws: odd }];
    expect(
      await compared(sections, [
        [0, 1],
        [0, 1],
      ]),
    ).to.deep.equal([1, 8]);
  });

  it('draws in sections that a run may leave out stay apart', async () => {
    const rare: readonly Partial<Drawing>[] = [{ every: 2 }, { optional: true }];
    for (const how of rare) {
      const sections = [{ draws: odd }, { draws: odd, ...how }, { draws: odd }];
      const runs = [
        [0, 1, 2],
        [0, 2],
        [0, 1, 2],
      ];
      expect(await compared(sections, runs)).to.deep.equal([6, 12]);
    }
  });

  it('given numbers replace those of single draws', async () => {
    for (const given of [[0], [1, 3], [2], [0, 1, 2, 3]])
      await compared([{ draws: odd }, { draws: odd }], [[0, 1]], given);
    const [all] = await compared([{ draws: odd }], [[0]], [0, 1, 2, 3]);
    expect(all).to.equal(1);
  });

  it('the caller may advance the generator after the last draw', async () => {
    const cases: [readonly Drawing[], readonly number[], readonly number[]][] = [
      [[{ draws: odd }], [], [1 + 2 + 2 + 1]],
      [[{ draws: odd }], [3], [2]],
      [[{ draws: odd }], [0, 1, 2, 3], [0]],
      [[{ draws: odd }, { draws: () => [uniform([5])] as Expression[] }], [], [0, 2]],
      [[{ draws: odd }, { draws: odd, every: 2 }], [], [0, 0]],
    ];
    for (const [sections, given, wanted] of cases) {
      const made = new Drawn(sections, true);
      const stream = made.device.currentStream;
      const zeros = given.map((i) => made.device.allocate({ shape: [...made.nodes[i]!.shape] }));
      const draws = new Map(given.map((i, k) => [made.nodes[i]!, zeros[k]!]));
      made.plan.bind(stream, {});
      const blocks = sections.map((_, s) =>
        made.plan.emitSection(stream, s, { draws, advance: false }),
      );
      expect(blocks).to.deep.equal(wanted);
      const [behind] = [await made.generator.state()];
      const whole = new Drawn(sections, true);
      whole.plan.bind(stream, {});
      const same = new Map(given.map((i, k) => [whole.nodes[i]!, zeros[k]!]));
      for (const [s] of sections.entries()) whole.plan.emitSection(stream, s, { draws: same });
      const { offset } = await whole.generator.state();
      expect(Number(offset - behind.offset)).to.equal(wanted.reduce((a, b) => a + b, 0));
      const [found, advanced] = await Promise.all(
        [made, whole].map(({ plan }) => Promise.all(plan.outputs.map((each) => each.toArray()))),
      );
      expect(found).to.deep.equal(advanced);
      for (const each of [...zeros, made, whole]) each.close();
    }
  });
});
