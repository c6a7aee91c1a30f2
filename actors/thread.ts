/**
 * A worker's entry: hosts one or more roles and runs their duty cycle. Set-up comes over comlink
 * while the loop is not running. Once it runs, only shared memory is listened to. Only a worker of
 * ActorThreads may load this file.
 */
import { parentPort } from 'node:worker_threads';
import { ThreadEnding } from '../src/base/addon.ts';
import { nativeDevices } from '../src/device/native.ts';
import { GroupRank } from '../src/engine/group/group-rank.ts';
import type { Actor, ThreadOfActors, ThreadSetup } from '../src/engine/pipeline/actors.ts';
import { bellsOf } from '../src/engine/pipeline/source.ts';
import { ThreadState } from '../src/engine/ring/header.ts';
import { Ring } from '../src/engine/ring/ring.ts';
import type { Role } from '../src/engine/ring/slot.ts';
import type { Bell } from '../src/shm/bell.ts';
import { enterWord } from '../src/shm/claim.ts';
import { expose } from '../src/shm/control.ts';
import { MAX_PARK_MS } from '../src/shm/wait.ts';
import { Hosted } from './hosted.ts';
import { makeActors } from './make.ts';
import type { PollActor } from './poll.ts';

/** How often a thread looks at what rings no bell. */
const UNRUNG_MS = 0.2;
/** Packing more than this takes longer than the host device's pool takes to wake. */
const LONG_PACK_BYTES = 256 * 1024;

/** One thread's roles and their loop. */
export class ActorThread implements ThreadOfActors {
  #setup: ThreadSetup | null = null;
  #ring: Ring | null = null;
  #bell: Bell | null = null;
  #hosted: Hosted | null = null;

  start(setup: ThreadSetup): void {
    const ring = Ring.attach(setup.ring);
    const { threads } = ring.header;
    ring.bells.adoptPackBell(bellsOf(setup.source).at(setup.packBell));
    this.#setup = setup;
    this.#ring = ring;
    this.#bell = ring.bells.ofThread(setup.thread);
    // Loaded before the word is watched: what is loaded later is left earlier, and leaving devices
    // may wait for them.
    const { ownThread } = nativeDevices();
    // However this thread ends, its word says so: the opener may be blocked when it happens.
    enterWord(
      threads,
      setup.thread,
      Atomics.load(threads, setup.thread),
      ThreadState.running,
      ThreadState.dead,
    );
    // Actors of a learner group lend their thread to MPI, which may leave a context of its own in
    // it.
    if (setup.averaging === null) ownThread();
    const longPack = setup.deviceRows !== null || setup.slots.host.batchBytes > LONG_PACK_BYTES;
    this.#hosted = new Hosted(ring, { thread: setup.thread, longPack }, (hosted) =>
      makeActors(setup, hosted, ring, this.#bell),
    );
    this.#hosted.follow();
    setImmediate(() => this.#run());
  }

  #run(): void {
    const ring = this.#ring as Ring;
    const { thread } = this.#setup as ThreadSetup;
    // A predecessor may have died between a store and its ring: the threads that wait for that look
    // again.
    ring.bells.ringAll();
    const last = this.#loop(ring);
    this.#hosted?.close();
    ring.header.setThreadState(thread, last);
    // The worker has nothing left to answer and ends by itself. Deno's has no close(): its worker
    // ends when it is terminated.
    (parentPort as { close?(): void } | null)?.close?.();
  }

  #loop(ring: Ring): ThreadState {
    const setup = this.#setup as ThreadSetup;
    const bell = this.#bell as Bell;
    const hosted = this.#hosted as Hosted;
    let actors: readonly Actor[] = [];
    let poll: PollActor | undefined;
    try {
      for (;;) {
        // The bell before the scan, stop after the bell: any other order can lose a wake.
        const count = bell.read();
        if (ring.header.stopping || ring.failure.set) return ThreadState.stopped;
        hosted.follow();
        if (actors !== hosted.actors) {
          actors = hosted.actors;
          poll = hosted.poll;
          // From here on the executor may count on this thread.
          poll?.back();
        }
        if (hosted.work() > 0) continue;
        hosted.working = poll;
        const most = hosted.waitsUnrung ? UNRUNG_MS : MAX_PARK_MS;
        if (poll?.pending) poll.wait(count, most);
        else {
          poll?.away();
          bell.park(count, most, setup.pollMs);
          poll?.back();
        }
      }
    } catch (error) {
      // Terminated: the thread that did it learns so from this thread's end, not from what this
      // thread could not do any more.
      if (error instanceof ThreadEnding) return ThreadState.dead;
      const { working } = hosted;
      const failure = ring.failureAt(
        working?.role ?? hosted.missing[0] ?? (setup.roles[0] as Role),
        working?.slot ?? -1,
        error,
      );
      if (setup.restartable) ring.thrown.write(failure);
      else {
        ring.fail(failure);
        // The other learners end too, whatever the opener is busy with.
        const { averaging } = setup;
        if (averaging)
          new GroupRank(averaging.group, averaging.rank).fail(ring.failure.read() ?? error);
      }
      return ThreadState.threw;
    }
  }
}

if (parentPort) expose(new ActorThread(), parentPort);
