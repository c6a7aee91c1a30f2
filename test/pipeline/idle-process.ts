/** A process that opens a pipeline and does not close it. The process must exit anyway. */
import { pipeline } from './fixture.ts';

await pipeline();
console.log('left idle');
