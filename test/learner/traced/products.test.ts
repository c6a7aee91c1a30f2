/** Products of networks with what surrounds them, under the rules of each kind of device. */
import { expect } from 'chai';
import { hostRules } from '../../../src/device/products.ts';
import { cases, onHost, ran, vendor, wrongIn } from './product-cases.ts';

describe('products with what surrounds them', () => {
  for (const name of Object.keys(cases))
    it(`${name}: each kind of device computes the same learner`, async () => {
      expect(await wrongIn(name, await onHost(name))).to.equal(null);
    });

  it('the rules of the host give the bits of products apart from their surroundings', async () => {
    for (const describe of Object.values(cases)) {
      const wanted = await ran(describe(), vendor);
      const found = await ran(describe(), hostRules, { poison: true });
      expect(found.weights).to.deep.equal(wanted.weights);
    }
  });
});
