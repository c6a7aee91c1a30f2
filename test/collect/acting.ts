/** A collector whose actions come from the published weights. */
import { vectorCollector } from '../../src/entries/collect.ts';
import { Counting } from './counting.ts';

export default vectorCollector({
  make: ({ index }) => new Counting(index),
  policy() {
    const action = new Float32Array(2);
    return { load: (weights) => action.set(weights), act: () => action };
  },
});
