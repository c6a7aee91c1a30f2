/** Tests each gradient rule against central differences, over random shapes. */
import { expect } from 'chai';
import { trace } from '../../src/entries/trace.ts';
import { openDevice } from '../../src/index.ts';
import { checkGradients } from '../../src/learn/trace/check-gradients.ts';
import { binaryOf, unaryOf } from '../../src/learn/trace/interpreter.ts';
import { type RuledOp, rules } from '../../src/learn/trace/rules.ts';
import type { OpName } from '../../src/learn/trace/tape.ts';
import { checkProgram, programs } from './programs.ts';

describe('gradient rules', () => {
  const seen = new Set<OpName>();
  /** names of unary and binary ops, and of reductions */
  const functions = new Set<string>();

  for (const name of Object.keys(programs))
    it(`${name} has the gradient that central differences give`, () => {
      checkProgram(name, ({ op, attributes }) => {
        seen.add(op);
        if ('f' in attributes) functions.add(`${op} ${attributes.f}`);
      });
    });

  it('every rule was tested', () => {
    const sources: RuledOp[] = ['input', 'memory', 'constant', 'full', 'draw'];
    // Ops that have no gradient, or whose gradient is that of another op.
    const others: RuledOp[] = ['categorical', 'gatherAlong'];
    // test/learner/traced.test.ts tests networks.
    others.push('network');
    const missing = (Object.keys(rules) as RuledOp[]).filter(
      (op) => !seen.has(op) && !sources.includes(op) && !others.includes(op),
    );
    expect(missing).to.deep.equal([]);
    const wanted = [
      ...Object.keys(unaryOf).map((f) => `unary ${f}`),
      ...Object.keys(binaryOf).map((f) => `binary ${f}`),
      ...['sum', 'max', 'min', 'logSumExp', 'argmax'].map((f) => `reduce ${f}`),
    ];
    expect(wanted.filter((each) => !functions.has(each))).to.deep.equal([]);
  });

  it('a wrong gradient is found, and the error names the element', () => {
    const device = openDevice('host:0');
    const right = rules.softmax;
    rules.softmax = (dy, node, inputs) => right(dy.mul(1.01), node, inputs);
    try {
      const make = () =>
        trace(device, { x: [3, 4] }, ({ x }) => {
          const loss = x.softmax().square().sum();
          checkGradients(loss, [x]);
          return loss;
        });
      expect(make).to.throw(
        RangeError,
        /gradient of wrt\[0\] \[3, 4\], made at .*rules\.test\.[jt]s:\d+:\d+, is .* at \[\d, \d\]/,
      );
    } finally {
      rules.softmax = right;
    }
  });
});
