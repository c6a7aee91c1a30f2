/**
 * Checks the model of the rate limiter (limiter.ts). The rules about counts and wakes hold in every
 * interleaving. Each rule broken on purpose is caught.
 */
import { itAll } from '../rig/setting.ts';
import { type LimiterMutation, type LimiterSetup, limiterProtocol } from './limiter.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({ adds, batches, add, batch, minSize, errorBuffer, givesBack }: LimiterSetup) =>
  `adds [${adds}] × ${add}, batches [${batches}] × ${batch}, from ${minSize} rows on, band ${errorBuffer}` +
  (givesBack ? ', one given back' : '');
const { holds, caught, explored } = proofsOf<LimiterMutation, LimiterSetup>(
  limiterProtocol,
  inWords,
);

/** The narrowest band that checkBand() allows, so that every agent waits many times. */
const narrow: LimiterSetup = {
  adds: [3],
  batches: [3],
  add: 1,
  batch: 1,
  minSize: 1,
  errorBuffer: 2,
};
/** In these setups one side waits for the other side's last add, or for its last batch. */
const lastAdd: LimiterSetup = { ...narrow, adds: [1], batches: [1] };
const lastBatch: LimiterSetup = { ...narrow, adds: [4], batches: [1] };
const writers: LimiterSetup = { ...narrow, adds: [2, 2], batches: [2] };
const samplers: LimiterSetup = { ...narrow, adds: [2], batches: [2, 2] };
const large: LimiterSetup = { ...narrow, adds: [4], batches: [2], batch: 2, errorBuffer: 3 };
const back: LimiterSetup = { ...narrow, adds: [1], batches: [1, 2], givesBack: true };

describe('rate limiter model: rules hold', function () {
  this.timeout(60_000);
  for (const setup of [narrow, lastAdd, lastBatch, writers, samplers, large, back]) holds(setup);
  holds({ ...narrow, adds: [2, 2], batches: [2, 2], minSize: 2 }, itAll);
  holds({ ...back, adds: [4], batches: [1, 3] });
  holds({ ...back, adds: [2, 1], batches: [1, 2], batch: 2, errorBuffer: 3 }, itAll);
});

describe('rate limiter model: mutations are caught', function () {
  this.timeout(60_000);
  after(() => console.log(`      ${explored()} of a rate limiter`));

  caught('a collector stores `admitted` without a compare-exchange', 'Limiter-1', writers);
  caught('a requester stores `samples` without a compare-exchange', 'Limiter-1', samplers);
  caught('an agent takes room without a new check after a failed exchange', 'Limiter-1', {
    ...writers,
    adds: [2, 3],
    batches: [1],
  });
  caught('a collector checks `inserts` instead of `admitted`', 'Limiter-1', writers);
  caught('a requester checks `admitted` instead of `inserts`', 'Limiter-2', narrow);
  caught('a collector counts inserts before it commits the rows', 'Limiter-2', narrow);
  caught('a requester does not check the minimum size', 'Limiter-2', narrow);
  caught('the limiter uses a band narrower than a batch and an add', 'deadlock', large);
  caught('an agent checks for room before it reads its bell', 'deadlock', narrow);
  caught('a collector rings requesters before it counts inserts', 'deadlock', lastAdd);
  caught('a requester rings collectors before it counts samples', 'deadlock', lastBatch);
  caught('a requester that gives a batch back rings no bell', 'deadlock', back);
});
