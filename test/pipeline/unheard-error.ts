/**
 * Loses an actor's thread with no waiter and no listener: the error must surface as an uncaught
 * exception.
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
