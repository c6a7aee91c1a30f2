/**
 * Checks the model of claims (claims.ts). The rules hold in every order of the threads' steps and
 * ends. Each rule broken on purpose is caught.
 */
import { type ClaimsMutation, type ClaimsSetup, claimsProtocol } from './claims.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({ threads, takes, ends }: ClaimsSetup) =>
  `threads: ${threads}, each takes the word: ${takes}${ends ? ', and ends anywhere' : ''}`;
const { holds, caught, explored } = proofsOf<ClaimsMutation, ClaimsSetup>(claimsProtocol, inWords);

const plain: ClaimsSetup = { threads: 2, takes: 2, ends: false };
const mortal: ClaimsSetup = { threads: 2, takes: 2, ends: true };

describe('claim model: rules hold', function () {
  this.timeout(60_000);
  for (const setup of [plain, mortal]) holds(setup);
  holds({ threads: 3, takes: 2, ends: true });
});

describe('claim model: mutations are caught', function () {
  this.timeout(60_000);
  after(() => console.log(`      ${explored()} of claims`));

  caught('looked at and taken in two steps', 'Claim-1', plain);
  caught('taken and watched in two steps', 'Claim-3', mortal);
  caught('all claims have one number', 'Claim-2', plain);
  caught('given back whatever the word says', 'Claim-2', plain);
  caught('the end frees whatever the word says', 'Claim-2', mortal);
  caught('unwatched before it is given back', 'Claim-3', mortal);
});
