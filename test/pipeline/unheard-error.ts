/** Loses an actor's thread with nobody waiting and nobody listening: the error must surface as an uncaught exception. */
import { workersOf } from './crew.ts';
import { pipeline } from './fixture.ts';

const made = await pipeline();
const hold = setInterval(() => {}, 1000);
process.on('uncaughtException', (error) => {
  console.log(`uncaught ${error.name}: ${error.message}`);
  clearInterval(hold);
});
await workersOf(made)[0]?.terminate();
