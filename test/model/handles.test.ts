/** The handle table under every order of pins and closes, and each of its rules broken in turn. */
import { type HandlesMutation, type HandlesSetup, handlesProtocol } from './handles.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({ users, pins, closers }: HandlesSetup) =>
  `users: ${users.join(' and ')}, pins of each: ${pins}, closers: ${closers}`;
const { holds, caught, explored } = proofsOf<HandlesMutation, HandlesSetup>(handlesProtocol, inWords);

const one: HandlesSetup = { users: ['right'], pins: 2, closers: 1 };
const two: HandlesSetup = { users: ['right', 'right'], pins: 1, closers: 2 };

describe('the handle table', function () {
  this.timeout(60_000);
  for (const setup of [one, two]) holds(setup);
  holds({ users: ['right', 'wrong'], pins: 2, closers: 2 });
});

describe("the handle table's rules, broken on purpose, are caught", function () {
  this.timeout(60_000);
  after(() => console.log(`      ${explored()} of the handle table`));

  caught('a pin looks not for closing', 'T1', two);
  caught('a pin looks not for the generation', 'T2', one);
  caught('looked at and pinned in two steps', 'T1', two);
  caught('pins are not waited for', 'T2', one);
  caught('looked at and closed in two steps', 'T3', { users: [], pins: 1, closers: 2 });
  caught('the generation stays', 'T2', one);
  caught('the entry is given back before its object is taken', 'T3', one);
  caught('open before the object is there', 'T1', one);
  caught('one that gives up leaves it closing', 'deadlock', one);
  caught('a pin of another kind stays', 'deadlock', { users: ['right', 'wrong'], pins: 1, closers: 1 });
});
