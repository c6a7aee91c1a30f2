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
    caught('averaged is stored before the mean is on its way', 'lock-step');
    caught('the slot is Free before the second spent is done', 'end');
    caught('the parameters are told before they are home', 'home');
    caught('begun is stored behind what is told', 'twice', { faults });
    caught('a successor does not look at begun and over', 'twice', { faults });
    caught('over is stored before averaged', 'twice', { faults });
  });
});
