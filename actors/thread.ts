/**
 * A worker's entry: hosts one or more roles and runs their duty cycle. Set-up comes over comlink while the loop is not
 * running; once it runs, only shared memory is listened to. Nothing but a worker of Crew may load this file.
 */
import { parentPort } from 'node:worker_threads';
import { answered, ThreadEnding } from '../src/addon.ts';
import { ReplayBuffer } from '../src/buffer/replay-buffer.ts';
import { expose } from '../src/control.ts';
import { native } from '../src/device/native.ts';
import { Ring, ThreadState } from '../src/ring/ring.ts';
import { Field, type Role, roles } from '../src/ring/slot.ts';
import type { Bell } from '../src/wait/bell.ts';
import type { Actor } from './actor.ts';
import { type ActorSetup, makeActors } from './make.ts';
import type { PollActor } from './poll.ts';

/** No park is longer: the net under a bug, and under a thread that native code could not wake. */
const LONGEST_PARK_MS = 100;

export interface ThreadSetup extends ActorSetup {
  thread: number;
  roles: readonly Role[];
  /** failures are the opener's to judge: a throw leaves ThreadState.threw instead of failing the pipeline */
  restartable: boolean;
}

/** One thread's roles and their loop. */
export class ActorThread {
  #setup: ThreadSetup | null = null;
  #ring: Ring | null = null;
  #actors: Actor[] = [];
  #bell: Bell | null = null;

  attach(setup: ThreadSetup): void {
    const ring = Ring.attach(setup.ring);
    const pack = ReplayBuffer.attach(setup.buffer).bells.at(Math.max(0, setup.packBell));
    // A thread has one bell, whatever roles it hosts: pack's thread waits on the one that add() rings.
    const packThread = ring.hostOf('pack');
    for (const role of roles) if (ring.hostOf(role) === packThread) ring.setBell(role, pack);
    this.#setup = setup;
    this.#ring = ring;
    this.#bell = ring.bellOf(setup.roles[0] as Role);
    // However this thread ends, its word says so: the opener may be blocked when it happens.
    const before = Atomics.load(ring.threads, setup.thread);
    answered(native().watchThread(ring.threads, setup.thread, before, ThreadState.running, ThreadState.dead));
    this.#actors = makeActors(setup, setup.roles, ring, this.#bell);
  }

  /** Returns at once; the loop starts when the reply is on its way. */
  start(): void {
    setImmediate(() => this.#run());
  }

  #run(): void {
    const ring = this.#ring as Ring;
    const { thread } = this.#setup as ThreadSetup;
    // A predecessor may have died between a store and its ring: whoever waits for that looks again.
    ring.ringAll();
    const last = this.#loop(ring);
    for (const actor of this.#actors) actor.close();
    this.#actors = [];
    ring.setThreadState(thread, last);
    // Nothing left to answer: the worker ends by itself.
    parentPort?.close();
  }

  #loop(ring: Ring): ThreadState {
    const setup = this.#setup as ThreadSetup;
    const bell = this.#bell as Bell;
    const actors = this.#actors;
    const poll = actors.find((actor): actor is PollActor => actor.role === 'poll');
    let working: Actor | undefined;
    try {
      // From here on the executor may count on this thread.
      poll?.back();
      for (;;) {
        // The bell before the scan, stop after the bell: any other order can lose a wake.
        const seen = bell.read();
        if (ring.stopping || ring.failure.set) return ThreadState.stopped;
        let done = 0;
        for (const actor of actors) {
          working = actor;
          done += actor.work();
        }
        if (done > 0) continue;
        working = poll;
        if (poll?.pending) poll.wait(seen, LONGEST_PARK_MS);
        else {
          poll?.away();
          bell.park(seen, LONGEST_PARK_MS, setup.spins);
          poll?.back();
        }
      }
    } catch (error) {
      // Terminated: whoever did it is told by the thread's end, not by what it could not do any more.
      if (error instanceof ThreadEnding) return ThreadState.dead;
      const slot = working?.slot ?? -1;
      const tick = slot < 0 ? -1 : (ring.record(slot)[Field.tick] as number);
      const failure = { role: working?.role ?? (setup.roles[0] as Role), slot, tick, error };
      if (setup.restartable) ring.thrown.write(failure);
      else ring.fail(failure);
      return ThreadState.threw;
    }
  }
}

if (parentPort) expose(new ActorThread(), parentPort);
