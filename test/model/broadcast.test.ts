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

  caught('the writer publishes an entry before it writes the words', 'Broadcast-1', small);
  caught('the writer begins an entry without loading the head', 'Broadcast-1', small);
  caught('the reader does not check the head after its copy', 'Broadcast-1', small);
  caught('the reader tolerates a lag that is one entry too long', 'Broadcast-1', small);
  caught('the reader checks the head before its copy is complete', 'Broadcast-1', small);
  caught('the reader does not count an overwritten entry as missed', 'Broadcast-2', small);
  caught('the reader continues at the newest head and skips entries', 'Broadcast-2', small);
});
