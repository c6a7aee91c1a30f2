/**
 * Checks the model of halos between processes (halo-carrier.ts). The rules hold in every
 * interleaving of ranks, native threads and MPI. Each rule of the native thread broken on purpose
 * is caught.
 */
import { type CarrierMutation, type CarrierSetup, carrierProtocol } from './halo-carrier.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({ exchanges, faults = [] }: CarrierSetup) =>
  `${exchanges} exchanges${faults.length > 0 ? ', either rank may close early' : ''}`;
const { holds, caught: caughtIn, explored } = proofsOf(carrierProtocol, inWords);
const caught = (broken: CarrierMutation, rule: string, more: Partial<CarrierSetup> = {}) =>
  caughtIn(broken, rule, { exchanges: 4, ...more });

describe('model of halo exchange between processes', function () {
  this.timeout(60_000);

  describe('rules hold', () => {
    holds({ exchanges: 4 });
    holds({ exchanges: 4, faults: ['close'] });
  });

  describe('mutations are caught', () => {
    after(() => console.log(`      ${explored()} of halos between processes`));
    caught('the carrier publishes an exchange before the earlier send ends', 'Exchange-2');
    caught('the carrier checks the latest ended send of either half', 'Exchange-2');
    caught('the carrier publishes an exchange before its bytes arrive', 'Exchange-1');
    for (const faults of [[], ['close']] as const) {
      caught('the carrier marks a rank as gone before its sends arrive', 'Exchange-5', { faults });
      caught('the carrier reads halves before states', 'Exchange-5', { faults });
    }
  });
});
