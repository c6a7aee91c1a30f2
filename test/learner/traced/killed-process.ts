/**
 * Trains the learner of cycle.ts. Arguments: the folder of a checkpoint, the mode, the number of updates, and
 * optionally 'killed': the process then saves a checkpoint at the end and kills itself. Otherwise it prints the
 * loaded state, and the state and the scalars at the end.
 */
import { Checkpoint } from '../../../src/index.ts';
import { type Mode, textsOf, trained } from './cycle.ts';

const [folder = '', mode, updates, killed] = process.argv.slice(2) as [
  string,
  Mode,
  string,
  string?,
];
let loaded: unknown;
const ended = await trained(mode, Number(updates), {
  begin: async (learner) => {
    await Checkpoint.restore(folder, { learner });
    loaded = textsOf(await learner.state());
  },
  after: async (done, learner) => {
    if (killed === undefined || done < Number(updates)) return;
    const checkpoint = await Checkpoint.open(folder, { learner });
    await checkpoint.save();
    process.kill(process.pid, 'SIGKILL');
  },
});
console.log(JSON.stringify({ loaded, ...ended }));
