/**
 * Captures and replays an update on two streams. The argument is the number of a wait between the
 * streams that is left out, or 0. Prints the number of waits.
 */
import { SacLearner } from '../../../src/entries/learner.ts';
import { laneDefaults } from '../../../src/learn/trace/plan/lanes.ts';
import { OBS, Rig, ROWS } from './rig.ts';

const omitted = Number(process.argv[2]);
laneDefaults.use = 'all';
const rig = new Rig();
const { device, stream } = rig;
const made = new SacLearner(device, {
  ...{ obsDim: OBS, actionDim: 3, batchSize: ROWS },
  actorHidden: [8, 7],
  criticHidden: [8, 7],
});
const learner = rig.keep(made);
await learner.ready;
const batch = rig.batch(ROWS, 'numbers');
const out = rig.zeros(learner.scalars.length);
const prototype = Object.getPrototypeOf(stream);
const { wait } = prototype;
let waits = 0;
prototype.wait = function (...args: unknown[]) {
  if (++waits !== omitted) wait.apply(this, args);
};
const replay = rig.captured(() => learner.update(stream, batch as never, out));
prototype.wait = wait;
for (let k = 0; k < 2; k++) replay();
await stream.synchronize();
console.log(JSON.stringify(waits));
rig.close();
