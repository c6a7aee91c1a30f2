/** Draws of a plan that are joined into one launch. */
import { expect } from 'chai';
import { type Expression, uniform } from '../../src/entries/trace.ts';
import { comparedDraws, type Drawing, Drawn, drawings, odd } from './draw-cases.ts';

describe('joined draws', () => {
  for (const [what, sections, runs, given, launches] of drawings)
    it(`draws ${what}, with the numbers of single draws`, async () => {
      expect(await comparedDraws(sections, runs, given)).to.deep.equal(launches);
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
