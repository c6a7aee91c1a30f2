/** Runs random learners and compares them with a computation by the rules of phases. */
import { expect } from 'chai';
import { drawn, textOf, wrongIn } from './random.ts';

const COUNT = 12;

describe('random learners', () => {
  it(`${COUNT} learners compute what the rules of phases give, in every way of running them`, async () => {
    for (let seed = 0; seed < COUNT; seed++) {
      const learner = drawn(seed);
      const wrong = await wrongIn(learner);
      if (wrong !== null) expect.fail(`seed ${seed}: ${wrong}\n${textOf(learner)}`);
    }
  });
});
