/**
 * Entry of a worker thread: hosts one or more roles and runs their loop. The opener calls start()
 * over comlink before the loop runs. The loop reads only shared memory and handles no messages.
 * Only a worker of ActorThreads may load this file.
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

/** Milliseconds between two checks of something that rings no bell. */
const UNRUNG_MS = 0.2;
/**
 * Bytes of a batch above which packing takes longer than waking a thread of the CPU device's pool.
 */
const LONG_PACK_BYTES = 256 * 1024;

/** Runs the actors of one thread in a loop. */
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
    // A thread's cleanup hooks run in the reverse order of their registration. So the device addon,
    // which registers a hook, is loaded before enterWord() registers another. The word then becomes
    // `dead` before the addon's hook may wait for devices.
    const { ownThread } = nativeDevices();
    // However this thread ends, its word becomes `dead`. If the opener is blocked, it receives no
    // event of the thread's end, but it can read this word.
    enterWord(
      threads,
      setup.thread,
      Atomics.load(threads, setup.thread),
      ThreadState.running,
      ThreadState.dead,
    );
    // After ownThread(), the device addon no longer asks the driver for this thread's device
    // context. In a learner group, MPI may run on this thread and may change that context.
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
    // A predecessor of this thread may have died after a store and before it rang the bell. So this
    // thread rings all bells.
    ring.bells.ringAll();
    const last = this.#loop(ring);
    this.#hosted?.close();
    ring.header.setThreadState(thread, last);
    // Without an open port the worker ends by itself. Deno's port has no close(), so there the
    // opener terminates the worker.
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
        // The loop reads the bell, then the stop word, then looks for work. In any other order it
        // could miss a wake.
        const count = bell.read();
        if (ring.header.stopping || ring.failure.set) return ThreadState.stopped;
        hosted.follow();
        if (actors !== hosted.actors) {
          actors = hosted.actors;
          poll = hosted.poll;
          // From here on, the CPU device may rely on this thread's help.
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
      // The thread was terminated, and `dead` shows that to the thread that terminated it. The
      // actor has not failed: the termination made its calls fail.
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
        // The other learners of the group end too, even if the opener is busy.
        const { averaging } = setup;
        if (averaging)
          new GroupRank(averaging.group, averaging.rank).fail(ring.failure.read() ?? error);
      }
      return ThreadState.threw;
    }
  }
}

if (parentPort) expose(new ActorThread(), parentPort);
