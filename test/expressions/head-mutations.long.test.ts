/**
 * Breaks joined draws, targets and sums on purpose. The programs of draw-cases.ts and head-cases.ts must
 * find each mutation.
 */
import { expect } from 'chai';
import { describeAll } from '../rig/setting.ts';
import type { Mutated } from './mutated.ts';
import { differencesOf } from './run-mutated.ts';

/** Module in src/learn/trace/plan, the text that is replaced, the replacement, and what it breaks. */
type Mutation = readonly [file: string, from: string, to: string, what: string];

const mutations: readonly Mutation[] = [
  ['draws', 'BLOCK * blocksOf(size)', 'size', 'whole blocks'],
  ['draws', '!always(sections[launch.section])', 'false', 'sections that are left out'],
  ['draws', 'one.kernel === two.kernel && ', '', 'the distribution'],
  ['draws', 'Object.is(real, two.reals[i])', 'true', 'the numbers of a distribution'],
  ['draws', 'offset: view.offset + to.offset', 'offset: view.offset', 'the places of parts'],
  ['draws', 'given.get(each)', 'undefined', 'given numbers'],
  ['draws', 'if (blocks > 0)', 'if (false)', 'the offset of the generator'],
  ['heads', 'buffer.output || ', '', 'targets that are results'],
  ['heads', 'users.length !== 2 || ', '', 'targets with other readers'],
  ['heads', 'touched ? null : from', 'from', 'launches that write what a target reads'],
  ['heads', 'this.list.indexOf(reader) + 1', 'this.list.indexOf(reader)', 'what a loss writes'],
  ['heads', ' || from.section !== reader.section', '', 'targets of other sections'],
  ['heads', 'wholeOf(target, of - 2, of)', 'wholeOf(target, 2, of)', 'strides of a target'],
  [
    'heads',
    'const [, value, choice, rewards, discounts]',
    'const [, choice, value, rewards, discounts]',
    'the choice of a target',
  ],
  ['heads', 'targetRows, loss.wholes[8]', 'rows, loss.wholes[8]', 'repeated targets'],
  ['heads', ' || atoms > MAX_ATOMS', '', 'the limit of atoms'],
  ['heads', 'of.wholes.at(-1) !== binaries.mul', 'false', 'the op of an entropy term'],
  ['heads', 'cost?.factor ?? one', 'one', 'the factor of an entropy term'],
  ['heads', 'softmax.wholes.at(-1) !== 0', 'false', 'logarithms of a softmax'],
  ['op-lowerings', "op('add', c, d)", 'c', 'the fourth member'],
  ['op-lowerings', 'i * step', '0', 'the places of members'],
  ['op-lowerings', "op('mul', sum, lowering.cell(scale, shape))", 'sum', 'the mean of members'],
  ['op-lowerings', 'n <= MAX_BLOCK_SUM', 'true', 'the limit of pieces'],
  ['op-lowerings', '[1, n / piece, piece, 1, n]', '[1, 1, piece, 1, n]', 'pieces'],
];

describeAll('mutations of joined draws, targets and sums', function () {
  this.timeout(180_000);
  let lines: string[] = [];
  before(async () => {
    const list = mutations.map(([file, from, to]): Mutated => [`plan/${file}`, from, to, 'heads']);
    list.push(['plan/heads', 'MAX_ATOMS = 1024', 'MAX_ATOMS = 1024', 'heads']);
    lines = await differencesOf(list);
  });

  for (const [i, [, , , what]] of mutations.entries())
    it(`the programs find a mutation of ${what}`, () => {
      expect(lines[i]).to.not.equal('');
    });

  it('the programs find nothing in the code as it is', () => {
    expect(lines.at(-1)).to.equal('');
  });
});
