/**
 * Checks the model of the handle table (handles.ts). The rules hold in every order of pins and
 * closes. Each rule broken on purpose is caught.
 */
import { type HandlesMutation, type HandlesSetup, handlesProtocol } from './handles.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({ users, pins, closers }: HandlesSetup) =>
  `users: ${users.join(' and ')}, pins of each: ${pins}, closers: ${closers.join(' and ')}`;
const { holds, caught, explored } = proofsOf<HandlesMutation, HandlesSetup>(
  handlesProtocol,
  inWords,
);

const one: HandlesSetup = { users: ['right'], pins: 2, closers: ['removes'] };
const two: HandlesSetup = { users: ['right', 'right'], pins: 1, closers: ['removes', 'removes'] };
const retired: HandlesSetup = { users: ['right', 'right'], pins: 1, closers: ['retires'] };
const both: HandlesSetup = { users: ['right', 'right'], pins: 1, closers: ['removes', 'retires'] };

describe('handle table model: rules hold', function () {
  this.timeout(60_000);
  for (const setup of [one, two, retired, both]) holds(setup);
  for (const closers of [
    ['removes', 'removes'],
    ['removes', 'retires'],
    ['retires', 'retires'],
  ] as const)
    holds({ users: ['right', 'wrong'], pins: 2, closers });
});

describe('handle table model: mutations are caught', function () {
  this.timeout(60_000);
  after(() => console.log(`      ${explored()} of the handle table`));

  caught('a pin looks not for closing', 'Handles-1', two);
  caught('a pin looks not for the generation', 'Handles-2', one);
  caught('looked at and pinned in two steps', 'Handles-1', two);
  caught('pins are not waited for', 'Handles-2', one);
  caught('looked at and closed in two steps', 'Handles-3', {
    users: [],
    pins: 1,
    closers: ['removes', 'removes'],
  });
  caught('the generation stays', 'Handles-2', one);
  caught('the entry is given back before its object is taken', 'Handles-3', one);
  caught('open before the object is there', 'Handles-1', one);
  caught('one that gives up leaves it closing', 'deadlock', one);
  caught('a pin of another kind stays', 'deadlock', {
    users: ['right', 'wrong'],
    pins: 1,
    closers: ['removes'],
  });
  caught('a remover sleeps whatever the word is by then', 'deadlock', one);
  caught('the last unpin wakes no remover', 'deadlock', one);
  caught('a retired handle grants pins', 'Handles-2', retired);
  caught('the last unpin leaves a retired object', 'deadlock', retired);
  caught('every unpin frees a retired object', 'Handles-2', retired);
  caught('a retirer takes what is pinned', 'Handles-2', retired);
  caught('a remover may close what is retired', 'Handles-3', both);
});
