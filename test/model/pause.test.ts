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

  caught('answers looked at behind the slots alone', 'slots', plain);
  caught('answers not looked at again', 'graphs', plain);
  caught('an early answer that is not taken back', 'graphs', plain);
  caught('replay answers while slots are under way', 'livelock', plain);
  caught('the requester answers before its request is made', 'slots', plain);
  caught('pauses not numbered', 'slots', { ...plain, runs: 2 });
});
