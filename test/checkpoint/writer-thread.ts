/** The thread in which telling-writer.ts runs. */
import { givenTask, perform } from '../rig/test-thread.ts';
import { type WriterTask, write } from './telling-writer.ts';

await perform(() => write(givenTask<WriterTask>()));
