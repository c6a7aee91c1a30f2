/**
 * A process that restores a folder's checkpoint, then opens the folder for saves until it is
 * killed.
 */
import { Checkpoint } from '../../src/index.ts';
import { restored } from './rig.ts';

const folder = process.argv[2] as string;
const { run } = await restored('steps', folder);
await Checkpoint.open(folder, run.parts);
process.on('message', () => {}); // keeps the process alive
process.send?.('it is open');
