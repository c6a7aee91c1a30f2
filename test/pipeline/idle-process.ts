/** Opens a pipeline and leaves it: the process must end by itself. */
import { pipeline } from './fixture.ts';

await pipeline();
console.log('left idle');
