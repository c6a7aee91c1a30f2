/** Runs more random learners than random.test.ts. */
import { expect } from 'chai';
import { itAll, setting } from '../../rig/setting.ts';
import { drawn, textOf, wrongIn } from './random.ts';

const COUNT = setting({ short: 0, all: 90, long: 20_000 });

describe('many random learners', function () {
  this.timeout(setting({ short: 60_000, all: 90_000, long: 7_200_000 }));

  itAll(`${COUNT} learners compute what the rules of phases give`, async () => {
    for (let seed = 1000; seed < 1000 + COUNT; seed++) {
      const learner = drawn(seed);
      const wrong = await wrongIn(learner);
      if (wrong !== null) expect.fail(`seed ${seed}: ${wrong}\n${textOf(learner)}`);
    }
  });
});
