/**
 * Trains a traced learner with a delayed phase by captured updates of one minibatch. Arguments: the
 * folder of a checkpoint, the number of updates, and optionally the update at which the process kills
 * itself. Prints the state at the end.
 */
import { Checkpoint } from '../../../src/index.ts';
import { trained } from './resumed.ts';

const [folder = '', updates, killed] = process.argv.slice(2);
const text = await trained(Number(updates), {
  begin: async (learner) => {
    await Checkpoint.restore(folder, { learner });
    return Checkpoint.open(folder, { learner });
  },
  after: async (update, checkpoint) => {
    // The last update before the kill is not saved, so it runs again.
    if (update === Number(killed)) process.kill(process.pid, 'SIGKILL');
    await checkpoint?.save();
  },
});
console.log(text);
