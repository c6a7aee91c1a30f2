/** A worker thread that runs a task of thread-worker.ts. */
import { TestThread } from '../rig/test-thread.ts';
import type { Handles, HandleTask, TaskName } from './thread-worker.ts';

export class Thread extends TestThread<HandleTask> {
  constructor(task: TaskName, handles: Handles) {
    super(new URL('./thread-worker.js', import.meta.url), { task, handles });
  }
}
