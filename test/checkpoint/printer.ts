/** A process that restores a folder and prints the restored state. */
import { type Kind, restored } from './rig.ts';

const [kind, folder] = process.argv.slice(2) as [Kind, string];
const { run, print } = await restored(kind, folder);
console.log(print);
await run.close();
