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

  caught('a pin does not check for closing', 'Handles-1', two);
  caught('a pin does not check the generation', 'Handles-2', one);
  caught('a pin checks and changes the word in two steps', 'Handles-1', two);
  caught('a remover does not wait for pins', 'Handles-2', one);
  caught('a closer checks and marks the word in two steps', 'Handles-3', {
    users: [],
    pins: 1,
    closers: ['removes', 'removes'],
  });
  caught('a closer does not increment the generation', 'Handles-2', one);
  caught('a closer releases the entry before it takes the object', 'Handles-3', one);
  caught('an adder opens the entry before it stores the object', 'Handles-1', one);
  caught('a remover that gives up leaves the entry closing', 'deadlock', one);
  caught('a thread keeps a pin of the wrong kind', 'deadlock', {
    users: ['right', 'wrong'],
    pins: 1,
    closers: ['removes'],
  });
  caught('a remover sleeps without comparing the word', 'deadlock', one);
  caught('the last unpin wakes no remover', 'deadlock', one);
  caught('a retired handle grants pins', 'Handles-2', retired);
  caught('the last unpin does not free a retired object', 'deadlock', retired);
  caught('every unpin frees a retired object', 'Handles-2', retired);
  caught('a retirer takes an object that is pinned', 'Handles-2', retired);
  caught('a remover closes an object that is retired', 'Handles-3', both);
});
