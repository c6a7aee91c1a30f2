/**
 * A process that loses the thread of an actor, without a wait and without an `error` listener. The
 * error must become an uncaught exception.
 */

import { pipeline } from './fixture.ts';
import { workersOf } from './inside.ts';

const made = await pipeline();
const hold = setInterval(() => {}, 1000);
process.on('uncaughtException', (error) => {
  console.log(`uncaught ${error.name}: ${error.message}`);
  clearInterval(hold);
});
await workersOf(made)[0]?.terminate();
