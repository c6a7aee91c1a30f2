/**
 * The writers of versions. Replay begins versions and orders their copies, and may die. The device
 * copies. Poll checks what was written, and publishes or refuses it. Afterwards there is another
 * run, or a thread that writes its own weights.
 */
import { type State, Violation } from './checker.ts';
import type { MailboxMutation, MailboxSetup } from './mailbox.ts';
import { At, BUFFER, Local, memory, Replay, Slot, Thread } from './mailbox-memory.ts';

export class Writers {
  readonly #setup: MailboxSetup;
  readonly #depth: number;

  constructor(setup: MailboxSetup) {
    this.#setup = setup;
    this.#depth = setup.depth ?? 2;
  }

  #broken(how: MailboxMutation): boolean {
    return this.#setup.broken === how;
  }
  /** Returns the first half of the buffer of version v (Mailbox-1). */
  bufferOf(version: number): number {
    return (
      BUFFER +
      2 * (version % (this.#broken('the mailbox uses only two of its three buffers') ? 2 : 3))
    );
  }
  /** Whether all writers have written what they were to write, and every copy has landed. */
  done(state: State): boolean {
    return this.#over(state) && this.#landed(state) && state[Local.writes] === this.#setup.writes;
  }

  // ---- replay: each step has at most one access that others see ---------------------------------

  /**
   * Makes replay's next step, with the `choice`-th value of its load. Returns false if there is
   * none.
   */
  replay(state: State, choice: number): boolean {
    const at = state[Local.replay]!;
    if (at >= Replay.over || (choice > 0 && at !== Replay.begins)) return false;
    if (at === Replay.takesOver) return this.#takesOver(state);
    if (at === Replay.looksAgain) {
      // Poll publishes before it stores Free. So a version that is published by now and was in no
      // slot was not left by a dead writer.
      const published = memory.load(state, Thread.replay, At.published, 'total');
      const all = this.#broken('a successor does not compare its versions with `published` again');
      this.#keep(state, (version) => all || version > published);
      return this.#go(state, Replay.begins);
    }
    if (at === Replay.begins) return this.#begins(state, choice);
    const slot = state[Local.tick]! % this.#depth;
    if (at === Replay.launches) {
      const version = state[Local.version]!;
      state[Local.slot + 3 * slot + 1] = version;
      if (version) this.#order(state, slot, version);
      return this.#go(state, Replay.handsOver);
    }
    if (at === Replay.handsOver) {
      if (
        this.#broken('replay enqueues the copy before it stores `begun`') &&
        state[Local.version]!
      )
        this.#storeBegun(state);
      state[Local.slot + 3 * slot] = Slot.replaying;
      memory.hand(state, Thread.replay, Thread.poll);
      state[Local.tick]!++;
      state[Local.version] = 0;
      return this.#go(
        state,
        state[Local.tick] === state[Local.ticks] ? Replay.over : Replay.begins,
      );
    }
    // One step for each slot: replay must not write a version again if poll will publish it.
    const other = at - Replay.firstSlot;
    const own = state[Local.tick]! % this.#depth;
    const taken = other !== own && state[Local.slot + 3 * other] === Slot.replaying;
    if (taken && !this.#broken('a successor writes versions again that poll will publish'))
      this.#keep(state, (version) => version !== state[Local.slot + 3 * other + 1]);
    return this.#go(state, at + 1);
  }

  #go(state: State, to: number): true {
    state[Local.replay] = to;
    return true;
  }
  #keep(state: State, which: (version: number) => boolean): void {
    const kept = [state[Local.left]!, state[Local.left + 1]!].filter(
      (version) => version > 0 && which(version),
    );
    for (const i of [0, 1]) state[Local.left + i] = kept[i] ?? 0;
  }

  #takesOver(state: State): boolean {
    if (!this.#landed(state)) return false;
    // The version of its own slot was published before poll stored Free.
    const free = state[Local.slot + 3 * (state[Local.tick]! % this.#depth)] === Slot.free;
    if (!free && !this.#broken('a successor lists unpublished versions before its slot is Free'))
      return false;
    memory.knowAll(state, Thread.replay);
    const published = memory.newest(state, At.published);
    const begun = memory.newest(state, At.begun);
    if (this.#broken('a successor lowers `begun` to `published`'))
      memory.store(state, Thread.replay, At.begun, published, 'total');
    const ignored =
      this.#broken('a successor lowers `begun` to `published`') ||
      this.#broken('a successor ignores versions that the dead writer began');
    for (const i of [0, 1])
      state[Local.left + i] = published + 1 + i <= begun && !ignored ? published + 1 + i : 0;
    return this.#go(state, Replay.firstSlot);
  }

  #begins(state: State, choice: number): boolean {
    const slot = state[Local.tick]! % this.#depth;
    if (state[Local.slot + 3 * slot] !== Slot.free) return false;
    // Poll has refused a version, so the rest of this run publishes none.
    if (state[Local.odd]) return choice === 0 && this.#go(state, Replay.launches);
    const left = state[Local.left]!;
    if (left > 0) {
      if (choice > 0) return false;
      state[Local.left] = state[Local.left + 1]!;
      state[Local.left + 1] = 0;
      state[Local.version] = left;
      return this.#go(state, Replay.launches);
    }
    const version = this.#next(state, Thread.replay, choice);
    if (version === 0) return false;
    state[Local.version] = version;
    if (!this.#broken('replay enqueues the copy before it stores `begun`')) this.#storeBegun(state);
    return this.#go(state, Replay.launches);
  }

  /**
   * begin_version() up to its store (Mailbox-2). Returns the version, or 0 if it cannot begin yet.
   * The thread knows the newest `begun`, which only it stores.
   */
  #next(state: State, thread: number, choice: number): number {
    const published = memory.load(state, thread, At.published, 'acquire', choice);
    const begun = memory.newest(state, At.begun);
    const most = this.#broken('the writer begins a third unpublished version') ? 3 : 2;
    return published < 0 || begun - published >= most ? 0 : begun + 1;
  }
  #storeBegun(state: State): void {
    const version = state[Local.version]!;
    if (version - memory.newest(state, At.published) > 2)
      throw new Violation(
        'Mailbox-2',
        `version ${version} is begun, ${memory.newest(state, At.published)} is published`,
      );
    if (version > memory.newest(state, At.begun))
      memory.store(state, Thread.replay, At.begun, version, 'total');
    memory.releaseFence(state, Thread.replay);
  }

  // ---- the device -------------------------------------------------------------------------------

  /** Orders a copy. Copies run in order, and each acquires what was done before it was ordered. */
  #order(state: State, slot: number, version: number): void {
    const copy = state[Local.ordered]!++;
    state[Local.slot + 3 * slot + 2] = copy + 1;
    state[Local.copy + 3 * (copy % 3)] = version;
    state[Local.copy + 3 * (copy % 3) + 1] = ++state[Local.contents]!;
    state[Local.copy + 3 * (copy % 3) + 2] = 0;
    const engine = Thread.copy + (copy % 3);
    memory.forget(state, engine);
    memory.hand(state, Thread.replay, engine);
    memory.releaseFence(state, engine);
  }
  #landed(state: State): boolean {
    return state[Local.copied] === state[Local.ordered];
  }

  /** Lands one half of a copy, in any order of the halves. */
  lands(state: State, half: number): boolean {
    if (this.#landed(state)) return false;
    const own = Local.copy + 3 * (state[Local.copied]! % 3);
    if (state[own + 2]! & (1 << half)) return false;
    const engine = Thread.copy + (state[Local.copied]! % 3);
    memory.store(state, engine, this.bufferOf(state[own]!) + half, state[own + 1]!, 'relaxed');
    state[own + 2] = state[own + 2]! | (1 << half);
    if (state[own + 2] === 3) {
      state[Local.written + state[own]!] = state[own + 1]!;
      state[Local.copied]!++;
      state.fill(0, own, own + 3);
    }
    return true;
  }

  // ---- poll -------------------------------------------------------------------------------------

  /**
   * Publishes a version whose copy is done, or refuses it (Mailbox-4), then frees the slot. If poll
   * dies between the two steps, its successor repeats the first one.
   */
  poll(state: State, odd: boolean): boolean {
    const slot = Local.slot + 3 * (state[Local.polled]! % this.#depth);
    if (state[slot] !== Slot.replaying) return false;
    const version = state[slot + 1]!;
    if (state[Local.poll] === 1 || version === 0) {
      if (odd) return false;
      state.fill(0, slot, slot + 3);
      state[Local.polled]!++;
      state[Local.poll] = 0;
      memory.hand(state, Thread.poll, Thread.replay);
      return true;
    }
    const copy = state[slot + 2]! - 1;
    if (
      copy >= state[Local.copied]! &&
      !this.#broken('poll publishes a version before its copy completes')
    )
      return false;
    memory.hand(state, Thread.copy + (copy % 3), Thread.poll);
    const published = memory.newest(state, At.published);
    if (version <= published) {
      if (odd) return false;
      state[Local.poll] = 1;
      return true;
    }
    const next = version === published + 1 || this.#broken('poll publishes versions out of order');
    if (odd && (!this.#setup.odd || state[Local.odd] || !next)) return false;
    if (odd) state[Local.odd] = 1;
    const never =
      (state[Local.odd] && !this.#broken('poll publishes versions out of order')) || odd || !next;
    if (never) this.#refuse(state, version);
    else this.#publish(state, Thread.poll, version);
    state[Local.poll] = 1;
    return true;
  }
  pollDies(state: State): boolean {
    if (!this.#setup.dies || state[Local.poll] !== 1 || state[Local.died]! & 2) return false;
    state[Local.died] = state[Local.died]! | 2;
    state[Local.poll] = 0;
    return true;
  }

  /**
   * If two versions are refused, the first may be written and refused again. So `refused` never
   * decreases.
   */
  #refuse(state: State, version: number): void {
    if (
      version > state[Local.refused]! ||
      this.#broken('poll lowers `refused` to an earlier version')
    )
      state[Local.refused] = version;
  }
  #publish(state: State, thread: number, version: number): void {
    const published = memory.newest(state, At.published);
    if (version !== published + 1)
      throw new Violation('Mailbox-2', `version ${version} is published behind ${published}`);
    state[Local.truth + version] = state[Local.written + version]!;
    const order = this.#broken('the writer stores `published` without release order')
      ? 'relaxed'
      : 'total';
    memory.store(state, thread, At.published, version, order);
  }

  replayDies(state: State): boolean {
    if (!this.#setup.dies || state[Local.died]! & 1 || state[Local.replay]! >= Replay.over)
      return false;
    state[Local.died] = state[Local.died]! | 1;
    state[Local.version] = 0;
    state[Local.left] = state[Local.left + 1] = 0;
    return this.#go(state, this.#setup.dies === 'followed' ? Replay.takesOver : Replay.dead);
  }

  #over(state: State): boolean {
    const slots = [0, 1, 2].every((slot) => state[Local.slot + 3 * slot] === Slot.free);
    const landed =
      this.#landed(state) || this.#broken('a pipeline closes before its last copy completes');
    return state[Local.replay]! >= Replay.over && slots && landed;
  }

  /** Ends a run: another run begins, or the pipeline is closed. */
  next(state: State): boolean {
    const again = state[Local.phase] === 0 && (this.#setup.again ?? 0) > 0;
    if (state[Local.phase] === 2 || !this.#over(state)) return false;
    state[Local.phase] = again ? 1 : 2;
    if (again) {
      state[Local.odd] = 0;
      state[Local.ticks] = state[Local.ticks]! + this.#setup.again!;
      return this.#go(state, Replay.takesOver);
    }
    // If a pipeline closes, nobody will publish the versions that it began. So they are refused.
    const closes =
      !this.#setup.open &&
      !this.#broken('a closed pipeline does not refuse the versions that it began');
    if (closes) this.#refuse(state, memory.newest(state, At.begun));
    memory.knowAll(state, Thread.host);
    return true;
  }

  /** WeightMailbox.write(): one native call, during which no thread dies. */
  host(state: State, half: number): boolean {
    if (
      state[Local.phase] !== 2 ||
      !this.#over(state) ||
      state[Local.writes] === this.#setup.writes
    )
      return false;
    const at = state[Local.host]!;
    if (at < 2 && half !== 0) return false;
    if (at === 0) return this.#takes(state);
    const version = state[Local.hosts]!;
    const late = this.#broken('a thread stores `begun` after it writes the buffer');
    if (at === 1) {
      if (!late) this.#beginsHere(state, version);
      if (this.#broken('a thread stores `published` before it writes the buffer'))
        this.#publish(state, Thread.host, version);
      state[Local.written + version] = ++state[Local.contents]!;
      state[Local.truth + version] = this.#broken(
        'a thread stores `published` before it writes the buffer',
      )
        ? state[Local.contents]!
        : 0;
      state[Local.host] = 2;
      return true;
    }
    if (at < 5) {
      const bit = 1 << half;
      if ((at - 2) & bit) return false;
      memory.store(
        state,
        Thread.host,
        this.bufferOf(version) + half,
        state[Local.contents]!,
        'relaxed',
      );
      state[Local.host] = at + bit;
      return true;
    }
    if (half !== 0) return false;
    if (late) this.#beginsHere(state, version);
    if (!this.#broken('a thread stores `published` before it writes the buffer'))
      this.#publish(state, Thread.host, version);
    state[Local.writes]!++;
    state[Local.host] = state[Local.hosts] = 0;
    return true;
  }

  /** take_version(): takes a refused version again if all versions that were begun are refused. */
  #takes(state: State): boolean {
    const begun = memory.newest(state, At.begun);
    const published = memory.newest(state, At.published);
    const again = begun > published && state[Local.refused]! >= begun;
    const version = again ? published + 1 : this.#next(state, Thread.host, 0);
    // A version is published directly after the one before it, or never.
    if (version !== published + 1) return false;
    state[Local.hosts] = version;
    state[Local.host] = 1;
    return true;
  }
  #beginsHere(state: State, version: number): void {
    const again = memory.newest(state, At.begun) >= version;
    if (!again) memory.store(state, Thread.host, At.begun, version, 'total');
    const missing = again
      ? 'a thread does not fence before it writes a version again'
      : 'the writer does not fence after it stores `begun`';
    if (!this.#broken(missing)) memory.releaseFence(state, Thread.host);
  }

  /**
   * After the writers have ended, what they knew is cleared. Otherwise equal states would differ.
   */
  forget(state: State): void {
    for (let thread = 0; thread < Thread.reader; thread++) memory.forget(state, thread);
    state.fill(0, 0, Local.truth);
  }
}
