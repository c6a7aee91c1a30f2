/**
 * Checks the model of a learner group's averaging (averages.ts). The rules hold in every
 * interleaving of two learners' actors and streams, also with a death. Each rule broken on purpose
 * is caught.
 */
import { type AveragesMutation, type AveragesSetup, averagesProtocol } from './averages.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({ ticks, faults = [] }: AveragesSetup) =>
  `${ticks} ticks${faults.length > 0 ? ', a thread of poll dies at any moment' : ''}`;
const { holds, caught: caughtIn, explored } = proofsOf(averagesProtocol, inWords);
const caught = (broken: AveragesMutation, rule: string, more: Partial<AveragesSetup> = {}) =>
  caughtIn(broken, rule, { ticks: 3, ...more });

describe('learner group averaging model', function () {
  this.timeout(60_000);

  describe('rules hold', () => {
    holds({ ticks: 4 });
    holds({ ticks: 3, faults: ['death'] });
  });

  describe('mutations are caught', () => {
    after(() => console.log(`      ${explored()} of means behind ticks`));
    const faults = ['death'] as const;
    caught('replay does not wait for the mean', 'lock-step');
    caught('poll stores `averaged` before it enqueues the mean', 'lock-step');
    caught('poll frees the slot before the second `spent` event fires', 'end');
    caught('poll sends the parameters before they are in host memory', 'home');
    caught('poll stores `begun` after it sends its message', 'twice', { faults });
    caught('a successor does not compare `begun` and `over`', 'twice', { faults });
    caught('poll stores `over` before `averaged`', 'twice', { faults });
  });
});
