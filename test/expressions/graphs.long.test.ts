/** Runs random programs on the device and compares them with the float64 interpreter. */
import { expect } from 'chai';
import { itLonger, setting } from '../rig/setting.ts';
import { ON_HOST } from '../rig/tested-device.ts';
import { changedByPoison, drawn, inputsOf, programOf, shrunk, wrongIn } from './graphs.ts';
import { ran } from './rig.ts';

const COUNT = ON_HOST ? setting({ short: 60, all: 300, long: 20_000 }) : 60;

describe('random expressions', function () {
  this.timeout(setting({ short: 60_000, all: 300_000, long: 7_200_000 }));

  itLonger(`${COUNT} programs compute what the interpreter computes`, async () => {
    for (let seed = 0; seed < COUNT; seed++) {
      const graph = drawn(seed);
      const found = await wrongIn(graph);
      if (found === null) continue;
      const small = await shrunk(graph, async (each) => (await wrongIn(each)) !== null);
      const { plan } = await ran(inputsOf(small), programOf(small)).catch(() => ({
        plan: 'no plan',
      }));
      expect.fail(
        `seed ${seed}: ${found}\nthe shortest program: ${await wrongIn(small)}\n${JSON.stringify(small)}\n${plan}`,
      );
    }
  });

  itLonger('poisoned memory changes no bit', async () => {
    for (let seed = 0; seed < COUNT / 4; seed++) {
      const changed = await changedByPoison(drawn(seed));
      expect(changed, `seed ${seed}`).to.equal(null);
    }
  });
});
