/** Plans that draw random numbers, with joined draws and with single ones. */
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
export interface Drawing {
  readonly draws: () => readonly Expression[];
  readonly every?: number;
  readonly optional?: boolean;
}

/** A plan whose results are its draws plus 0, so that no draw is a result itself. */
export class Drawn {
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
    for (const i of given) {
      const tensor = draws.get(this.nodes[i]!)!;
      expect(results[i]).to.deep.equal(await tensor.toArray());
      tensor.close();
    }
    return `${results.map((each) => new Uint32Array(each.buffer, each.byteOffset, each.length))} ${offset}`;
  }
}

/** Returns the numbers of launches that draw in both plans, whose runs must be equal. */
export async function comparedDraws(
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

export const odd = () => [normal([3]), normal([4, 2]), normal([5]), normal([1])] as Expression[];
const mixed = () =>
  [
    ...[normal([3]), normal([2]), uniform([5]), uniform([2, 3])],
    ...[normal([3], { deviation: 2 }), normal([3], { mean: 1 }), normal([7], { mean: 1 })],
  ] as Expression[];
const [both, rare] = [
  [0, 1, 2],
  [0, 2],
];

/** Sections, the sections of each run, the indices of given draws, and the numbers of launches. */
export const drawings: readonly (readonly [
  what: string,
  sections: readonly Drawing[],
  runs: readonly (readonly number[])[],
  given: readonly number[],
  launches: readonly [number, number],
])[] = [
  ['of odd sizes are one launch', [{ draws: odd }], [[0], [0]], [], [1, 4]],
  ['of other distributions stay apart', [{ draws: mixed }], [[0], [0]], [], [4, 7]],
  [
    'in several sections are one launch',
    [{ draws: odd }, { draws: odd }],
    [
      [0, 1],
      [0, 1],
    ],
    [],
    [1, 8],
  ],
  ...[{ every: 2 }, { optional: true }].map(
    (how) =>
      [
        `in sections with ${Object.keys(how)} stay apart`,
        [{ draws: odd }, { draws: odd, ...how }, { draws: odd }],
        [both, rare, both],
        [],
        [6, 12],
      ] as const,
  ),
  ...[[0], [1, 3], [2], [0, 1, 2, 3]].map(
    (given) =>
      [
        `are drawn one by one if the numbers of ${given} are given`,
        [{ draws: odd }, { draws: odd }],
        [[0, 1]],
        given,
        [1, 8],
      ] as const,
  ),
];

/** Returns the first plan whose numbers or launches are wrong, or null. */
export async function wrongDraws(): Promise<string | null> {
  try {
    for (const [, sections, runs, given, launches] of drawings)
      expect(await comparedDraws(sections, runs, given)).to.deep.equal(launches);
    return null;
  } catch (error) {
    return String(error);
  }
}
