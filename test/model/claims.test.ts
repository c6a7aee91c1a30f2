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

  caught('a thread checks and takes the word in two steps', 'Claim-1', plain);
  caught('a thread takes the word and registers the claim in two steps', 'Claim-3', mortal);
  caught('all threads use the same claim number', 'Claim-2', plain);
  caught('a thread releases the word without comparing its claim', 'Claim-2', plain);
  caught('a thread that ends frees the word without comparing its claim', 'Claim-2', mortal);
  caught('a thread unregisters its claim before it releases the word', 'Claim-3', mortal);
});
