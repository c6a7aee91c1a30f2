/** Products of networks with what surrounds them, under the rules of each kind of device. */
import { expect } from 'chai';
import { hostRules, ownRules } from '../../../src/device/products.ts';
import { layerNorm, linear, Network, relu } from '../../../src/entries/learner.ts';
import {
  bootstrap,
  describeLearner,
  type Expression,
  ensemble,
  sgd,
  TracedLearner,
} from '../../../src/entries/trace.ts';
import { cases, onHost, ran, vendor, wrongIn } from './product-cases.ts';
import { numbers, OBS, Rig, ROWS } from './rig.ts';

describe('products with what surrounds them', () => {
  for (const name of Object.keys(cases))
    it(`${name}: each kind of device computes the same learner`, async () => {
      expect(await wrongIn(name, await onHost(name))).to.equal(null);
    });

  it('a watch does not read gradients that no launch has written yet', async () => {
    const values = new Network([linear(OBS, 40), relu(), linear(40, 40), relu(), linear(40, 1)]);
    const layers = (norm: boolean) => [
      ...[linear(OBS, 6), ...(norm ? [layerNorm(6)] : []), relu()],
      linear(6, 1),
    ];
    for (const [rules, norm] of [
      [hostRules, true],
      [ownRules, true],
      [vendor, false],
    ] as const) {
      const rig = new Rig();
      const description = describeLearner({
        name: 'watched',
        rows: ROWS,
        batch: { obs: [OBS], nextObs: [OBS], rewards: [], discounts: [] },
        networks: { q: ensemble(new Network(layers(norm)), 3), v: values },
        optimizers: { q: sgd({ learningRate: 0.05 }), v: sgd({ learningRate: 0.05 }) },
        update({ q, v }, { obs, nextObs, rewards, discounts }) {
          const next = (v(nextObs) as Expression).reshape([ROWS]);
          const goal = bootstrap(rewards, discounts, next).detach();
          const loss = (q(obs) as Expression).reshape([3, ROWS]).sub(goal).square().mean();
          // The gradients of two passes are added in the memory of the plan.
          const again = (q(obs.mul(0.5)) as Expression).square().mean();
          return { minimize: { q: loss.add(again), v: (v(obs) as Expression).square().mean() } };
        },
      });
      const made = rig.keep(
        new TracedLearner(rig.device, description, { products: rules, poison: true }),
      );
      await made.ready;
      const watch = rig.keep(made.watch());
      const batch = {
        obs: rig.tensor([ROWS, OBS], numbers(ROWS * OBS, 1)),
        // The next observations of final states are left out.
        nextObs: rig.tensor([ROWS, OBS], new Float32Array(ROWS * OBS).fill(Number.NaN)),
        rewards: rig.tensor([ROWS], numbers(ROWS, 2)),
        discounts: rig.zeros(ROWS),
      };
      for (let k = 0; k < 2; k++) made.update(rig.stream, batch, rig.zeros(0));
      expect(await watch.first()).to.equal(null);
      batch.rewards.write(new Float32Array(ROWS).fill(Number.NaN));
      made.update(rig.stream, batch, rig.zeros(0));
      expect((await watch.first())?.text).to.match(/^update 2 .* has NaN or infinity/);
      rig.close();
    }
  });

  it('the rules of the host give the bits of products apart from their surroundings', async () => {
    for (const describe of Object.values(cases)) {
      const wanted = await ran(describe(), vendor);
      const found = await ran(describe(), hostRules, { poison: true });
      expect(found.weights).to.deep.equal(wanted.weights);
    }
  });
});
