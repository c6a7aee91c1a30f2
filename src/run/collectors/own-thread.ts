/** A collector's own thread: a piscina of one, whose long task is awaited together with the thread's end. */
import { Piscina } from 'piscina';
import type { CollectorSetup } from './collector-thread.ts';

const THREAD = new URL('./collector-thread.js', import.meta.url);

export type OwnThread = Piscina<CollectorSetup, void>;

/** What the thread throws while nobody waits for it, from a timer or a socket that a collector left behind, is told and ends nothing. */
export function makeOwnThread(): OwnThread {
  const one = { minThreads: 1, maxThreads: 1, concurrentTasksPerWorker: 1 };
  const pool: OwnThread = new Piscina({ filename: THREAD.href, ...one, atomics: 'disabled', recordTiming: false });
  pool.on('error', (error: unknown) => {
    if (pool.listenerCount('error') > 1) return;
    const message = (error as Error)?.message ?? String(error);
    process.emitWarning(`the thread of a collector that has ended failed: ${message}`, 'CollectorWarning');
  });
  return pool;
}

/** Rejects also where the thread could not be started, or ended before it had begun. */
export async function runInThread(pool: OwnThread, setup: CollectorSetup): Promise<void> {
  const thread = pool.threads[0]!;
  let [exited, failed] = [(_: number) => {}, (_: Error) => {}];
  const lost = new Promise<never>((_, reject) => {
    // There is no place in a module where that happened.
    exited = (code) => reject(Object.assign(new Error(`its thread exited with ${code}`), { stack: '' }));
    failed = reject;
  });
  thread.once('exit', exited);
  pool.once('error', failed);
  try {
    await Promise.race([pool.run(setup, { transferList: [setup.port] }), lost]);
  } finally {
    thread.off('exit', exited);
    pool.off('error', failed);
  }
}
