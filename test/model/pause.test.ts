/**
 * Checks the model of the end of a run (pause.ts). A run ends with no slot in use and no graph
 * held, in every interleaving. Each rule broken on purpose is caught.
 */
import { type PauseMutation, type PauseSetup, pauseProtocol } from './pause.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({ depth, runs, requests }: PauseSetup) =>
  `depth ${depth}, ${runs} runs, up to ${requests} requests in each: a run ends with no slot in use and no graph held`;
const { holds, caught } = proofsOf<PauseMutation, PauseSetup>(pauseProtocol, inWords);

const plain: PauseSetup = { depth: 1, runs: 1, requests: 2 };

describe('end-of-run model', () => {
  holds(plain);
  holds({ depth: 1, runs: 2, requests: 2 });
  holds({ depth: 2, runs: 2, requests: 3 });

  caught('the client checks the answers only after the slots', 'slots', plain);
  caught('the client does not check the answers again after the slots', 'graphs', plain);
  caught('replay does not withdraw an early answer', 'graphs', plain);
  caught('replay answers the pause while slots are in progress', 'livelock', plain);
  caught('the requester answers the pause before it makes its request', 'slots', plain);
  caught('the client does not number its pauses', 'slots', { ...plain, runs: 2 });
});
