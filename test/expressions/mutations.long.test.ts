/**
 * Breaks gradient rules, the planner and the memory on purpose. The comparison with central
 * differences, or random programs, must find each mutation.
 */
import { expect } from 'chai';
import { describeAll } from '../rig/setting.ts';
import type { Mutated } from './mutated.ts';
import { differencesOf } from './run-mutated.ts';

/**
 * Module in src/learn/trace, the text that is replaced, the replacement, what it breaks, and what
 * finds it: the gradients of a program, or a number of random programs and their ops.
 */
type Mutation = readonly [file: string, from: string, to: string, what: string, program?: string];

const mutations: readonly Mutation[] = [
  [
    'rules',
    'sub: (dy) => [dy, dy.neg()]',
    'sub: (dy) => [dy, dy]',
    'the sign of a difference',
    'sub',
  ],
  ['rules', "binary('mul', dy, a)]", "binary('mul', dy, b)]", 'the second factor', 'mul'],
  [
    'rules',
    'sumTo(where(condition, 0, dy)',
    'sumTo(where(condition, dy, 0)',
    'the side not taken',
    'where',
  ],
  [
    'rules',
    "make('pad', { axis, before: from }",
    "make('pad', { axis, before: 0 }",
    'the place of a slice',
    'slice',
  ],
  ['rules', 'reverse: reverse ? 0 : 1', 'reverse', 'the direction of running sums', 'cumsum'],
  ['rules', 'at += shape[axis];', '', 'the places of parts', 'concat'],
  ['rules', "f === 'max' ? 'argmax' : 'argmin'", "'argmax'", 'the least element', 'min over axes'],
  [
    'rules',
    "return [spread(binary('mul', dy, scale))];",
    'return [spread(dy)];',
    'the scale of a mean',
    'mean over axes',
  ],
  ['rules', 'axes.indexOf(d)', 'axes[d]', 'the inverse of a permutation', 'transpose'],
  ['gradient', 'before ? summed(before, d) : d', 'd', 'the sum of several uses', 'repeated use'],
  ['rules', 'detach: () => [null]', 'detach: (dy) => [dy]', 'detach', 'detach'],
  [
    'plan/lowering',
    'buffer.readers === 1 &&',
    '',
    'the last reader of a sum',
    '400 shared reshape',
  ],
  [
    'plan/op-lowerings',
    'reals: [1, target ? 1 : 0]',
    'reals: [1, 0]',
    'adding a product',
    '400 matmul product shared',
  ],
  ['plan/op-lowerings', 'target ? 1 : 0);', '0);', 'adding a slice', '400 slice add mul'],
  ['plan/op-lowerings', 'if (!target)\n', 'if (false)\n', 'zeros around a slice'],
  [
    'plan/op-lowerings',
    '(node.shape[axis] - 1) * x.strides[axis]',
    '0',
    'the end of a flip',
    '400 flip add',
  ],
  ['plan/op-lowerings', 'from * x.strides[axis]', '0', 'the start of a slice'],
  [
    'plan/memory',
    'last.set(buffer, i);',
    'if (!last.has(buffer)) last.set(buffer, i);',
    'the last use',
  ],
  ['plan/memory', 'last.get(each.buffer) === i &&', '', 'the last use in place'],
  ['plan/memory', 'from - end >= length &&', '', 'the size of a gap'],
  ['plan/memory', 'sameView(view, other)', 'true', 'equal views in place'],
  ['plan/memory', 'end = Math.max(end, to);', '', 'the end of a gap'],
  ['plan/memory', '&& !buffer.output', '', 'results that stay'],
  [
    'plan/merge',
    "const key = node.op === 'draw' ? '' : keyOf",
    'const key = keyOf',
    'merging draws',
  ],
  ['plan/merge', 'inputs, attributes].join', 'inputs].join', 'merging unequal ops'],
  ['plan/results', 'kept.buffer.output = true;', '', 'results that stay after the plan'],
  ['plan/inputs', 'rows * rowStride + rest', 'rest + rows', 'row strides of inputs'],
  ['shapes', 'return null;', '{}', 'views that need a copy'],
  [
    'plan/chains',
    'if (follows(launch, item))',
    'if (false)',
    'launches between the ops of a chain',
    '400 chains',
  ],
  [
    'plan/chains',
    'if (made >= 0)',
    'if (made > 0)',
    'operands that a chain computes',
    '400 chains',
  ],
  [
    'plan/chains',
    'FIRST_INPUT + (known',
    '1 + FIRST_INPUT + (known',
    'input numbers',
    '400 chains',
  ],
  [
    'plan/chains',
    'return buffer.output || ',
    'return ',
    'results that a chain writes',
    '400 chains',
  ],
  [
    'plan/chains',
    '.some((launch) => !among.has(launch))',
    '.some(() => false)',
    'values that launches after a chain read',
    '400 chains',
  ],
  ['plan/chains', ': whole(of, row)', ': columns', 'strides of a chain', '400 chains'],
  ['plan/chains', 'column === 0 ? whole', 'false ? whole', 'repeated columns', '400 chains'],
  [
    'plan/chains',
    'reads.some((operand) => !sameOperand(output, operand, rows))',
    'false',
    'other views of a value of the chain',
    '400 chains',
  ],
  ['plan/chains', 'a.offset === b.offset &&', '', 'inputs at different offsets', '400 chains'],
  [
    'plan/chains',
    'Object.is(other, value)',
    'other === value || value === 0',
    'constants of a chain',
    '400 chains',
  ],
  ['plan/chains', '+ 1 + 8 * d', '+ 1', 'the fourth operand', '400 chains'],
  ['plan/chains', 'j > i && steps.some', 'j > i + 1 && steps.some', 'ops that move back'],
  ['plan/chains', 'reals: [factor]', 'reals: [1]', 'the factor of a sum'],
  ['plan/chains', '.sum ? SUM_INPUT : INPUTS', '.sum ? INPUTS : INPUTS', 'the inputs of a sum'],
  ['plan/chains', 'return 98;', 'return 97;', 'the number of an op', '400 chains'],
];

describeAll('mutations of the planner of expressions', function () {
  this.timeout(180_000);
  let lines: string[] = [];
  before(async () => {
    const list: Mutated[] = mutations.map(([file, from, to, , finder = '400']) => [
      file,
      from,
      to,
      finder,
    ]);
    const same = 'return null;';
    list.push(
      ['shapes', same, same, '60'],
      ['shapes', same, same, 'transpose'],
      ['shapes', same, same, '100 chains'],
    );
    lines = await differencesOf(list);
  });

  for (const [i, [, , , what]] of mutations.entries())
    it(`programs find a mutation of ${what}`, () => {
      expect(lines[i]).to.not.equal('');
    });

  it('programs find nothing in the code as it is', () => {
    expect(lines.slice(mutations.length)).to.deep.equal(['', '', '']);
  });
});
