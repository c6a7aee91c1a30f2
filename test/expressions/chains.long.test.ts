/** Compares plans with chains and without in many random programs. */
import { expect } from 'chai';
import { itLonger, setting } from '../rig/setting.ts';
import { ON_HOST } from '../rig/tested-device.ts';
import { changedByChain } from './elementwise.ts';
import { changedByChains, drawn, shrunk } from './graphs.ts';

const COUNT = ON_HOST ? setting({ short: 100, all: 500, long: 20_000 }) : 30;

describe('random chains of elementwise ops', function () {
  this.timeout(setting({ short: 60_000, all: 300_000, long: 7_200_000 }));

  itLonger(`${COUNT} elementwise programs keep their bits`, async () => {
    for (let seed = 1000; seed < 1000 + COUNT; seed++) {
      const { changed, with: found, without } = await changedByChain(seed);
      expect(changed, `seed ${seed}\n${found.plan}\n${without.plan}`).to.equal(null);
    }
  });

  itLonger(`${COUNT / 2} programs of all ops keep their bits`, async () => {
    for (let seed = 0; seed < COUNT / 2; seed++) {
      const graph = drawn(seed);
      if ((await changedByChains(graph)) === null) continue;
      const small = await shrunk(graph, async (each) => (await changedByChains(each)) !== null);
      expect.fail(`seed ${seed}: ${await changedByChains(small)}\n${JSON.stringify(small)}`);
    }
  });
});
