/**
 * Breaks the launches of networks on purpose. The learners of product-cases.ts must find each mutation.
 */
import { expect } from 'chai';
import type { Mutated } from '../../expressions/mutated.ts';
import { differencesOf } from '../../expressions/run-mutated.ts';
import { describeAll } from '../../rig/setting.ts';

/** Module in src/learn/trace/plan, the text that is replaced, the replacement, and what it breaks. */
type Mutation = readonly [file: string, from: string, to: string, what: string];

const mutations: readonly Mutation[] = [
  ['linear-launches', 'offset: start + offset', 'offset: start', 'the places of parameters'],
  ['linear-launches', 'strides: [batch, ...strides]', 'strides: [0, ...strides]', 'batches'],
  ['linear-launches', 'inputs, split, y.distance', 'inputs, inputs, y.distance', 'second places'],
  ['linear-launches', 'rows, split, d.distance', 'rows, inputs, d.distance', 'split gradients'],
  ['linear-launches', 'y.batch, first.batch,', 'y.batch, y.batch,', 'shared inputs'],
  ['linear-launches', 'parameters.batch, op],', 'parameters.batch, -1],', 'fused activations'],
  ['linear-launches', 'reals: [1, beta]', 'reals: [1, 0]', 'the sum over members of a library'],
  ['linear-launches', 'p === 0 ? 0 : 1', '1', 'the first member of a sum'],
  ['linear-launches', 'op >= 0 && !given.sloped', 'op >= 0', 'slopes that are there already'],
  ['linear-launches', 'return op >= 0;', 'return false;', 'the slope below'],
  ['linear-launches', 'slopeReadsInput(op) ? z : y', 'y', 'slopes from the input'],
  ['linear-launches', 'slopeReadsInput(op) ? below.at.z', 'false ? below.at.z', 'fused slopes'],
  [
    'linear-launches',
    'const distance = 3 * outputs',
    'const distance = 2 * outputs',
    'terms side by side',
  ],
  ['linear-launches', 'each[i], offset', 'each[0], offset', 'gradients of scale and shift'],
  ['linear-launches', 'offset + from, [outputs, n]', 'offset, [outputs, n]', 'slices of weights'],
  ['linear-launches', 'p * parameters.batch', '0', 'weights of later members'],
  ['network-lowerings', 'split: -own', 'split: -total', 'the second of two inputs'],
  ['network-lowerings', 'offset: k * own * network.outputs', 'offset: 0', 'joined results'],
  [
    'network-lowerings',
    'const at = (rows) => rowsFrom(rows, k * own)',
    'const at = (rows) => rows',
    'memory of joined passes',
  ],
  [
    'network-lowerings',
    'slopeReadsInput(kind.op) ? fresh(outputs)',
    'false ? fresh(outputs)',
    'stored inputs',
  ],
  ['network-slopes', 'run.from - from', '0', 'memory of later members'],
  ['network-slopes', 'offset: -from', 'offset: 0', 'columns of a gradient'],
  ['network-slopes', 'if (this.#started) {', 'if (false) {', 'the sum over runs'],
  ['network-slopes', 'if (!this.#again)', 'if (true)', 'several backward passes'],
  ['members', 'by * rows.batch', '0', 'rows of members'],
  ['members', 'from * rows * columns', '0', 'rows of a run'],
  ['members', 'member * batch', '0', 'parameters of members'],
  ['chains', 'later.includes(buffer)', 'false', 'later results of a chain'],
];

describeAll('mutations of the launches of networks', function () {
  this.timeout(180_000);
  let lines: string[] = [];
  before(async () => {
    const list = mutations.map(
      ([file, from, to]): Mutated => [`plan/${file}`, from, to, 'products'],
    );
    list.push(['plan/members', 'member * batch', 'member * batch', 'products']);
    lines = await differencesOf(list);
  });

  for (const [i, [, , , what]] of mutations.entries())
    it(`the learners find a mutation of ${what}`, () => {
      expect(lines[i]).to.not.equal('');
    });

  it('the learners find nothing in the code as it is', () => {
    expect(lines.at(-1)).to.equal('');
  });
});
