/**
 * A process that goes on from a folder's checkpoint and has it open for saving until it is ended.
 */
import { Checkpoint } from '../../src/index.ts';
import { restored } from './rig.ts';

const folder = process.argv[2] as string;
const { run } = await restored('steps', folder);
await Checkpoint.open(folder, run.parts);
process.on('message', () => {}); // stays
process.send?.('it is open');
