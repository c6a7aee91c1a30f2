/**
 * Checks the model of broadcast rings (broadcast.ts). Broadcast-1 and Broadcast-2 hold in every
 * order of the writer's and the reader's accesses. Each rule broken on purpose is caught.
 */
import { type BroadcastMutation, type BroadcastSetup, broadcastProtocol } from './broadcast.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({ capacity, entries }: BroadcastSetup) => `room: ${capacity}, entries: ${entries}`;
const { holds, caught, explored } = proofsOf<BroadcastMutation, BroadcastSetup>(
  broadcastProtocol,
  inWords,
);

const small: BroadcastSetup = { capacity: 2, entries: 6 };

describe('broadcast ring model: rules hold', () => {
  holds(small);
  holds({ capacity: 4, entries: 12 });
});

describe('broadcast ring model: mutations are caught', () => {
  after(() => console.log(`      ${explored()} of broadcast rings`));

  caught('published before it is whole', 'Broadcast-1', small);
  caught('begun without a look at the head', 'Broadcast-1', small);
  caught('no second look', 'Broadcast-1', small);
  caught('a second look that is an entry too patient', 'Broadcast-1', small);
  caught('a second look before the copy', 'Broadcast-1', small);
  caught('what the second look refuses is not counted', 'Broadcast-2', small);
  caught('the next number is looked up at the end', 'Broadcast-2', small);
});
