/**
 * A rank's program: it starts an exchange, waits for it, and leaves, as src/extras/halo/updater.ts
 * does. Each access to shared memory is a step.
 */
import { park, type Ringing, readBell, ring } from './bell.ts';
import { type State, Violation } from './checker.ts';
import type { HaloMutation, HaloSetup } from './halo.ts';
import * as memory from './halo-memory.ts';
import { Fault, LOCAL, Note, Rank, type Route } from './halo-memory.ts';
import { BLOCKED, JAVASCRIPT, type Label, type Program } from './program.ts';

export class RankProgram {
  readonly by: Program;
  readonly routes: readonly Route[];
  /** where a rank continues if it closes, if it meets a failure, and if it computes for ever */
  readonly close: Label = { at: 0 };
  readonly fail: Label = { at: 0 };
  readonly rest: Label = { at: 0 };
  /**
   * the steps at which the rank's user calls the updater: from them the rank may jump to these
   * labels
   */
  readonly boundaries = new Set<number>();
  /** where the user has caught an error, after which the user may do nothing more */
  readonly caught: Label = { at: 0 };
  readonly #setup: HaloSetup;
  readonly #everybody: readonly Program[];
  readonly #missed: Label = { at: 0 };

  constructor(
    setup: HaloSetup,
    everybody: readonly Program[],
    rank: number,
    routes: readonly Route[],
  ) {
    this.by = everybody[rank]!;
    this.routes = routes;
    this.#setup = setup;
    this.#everybody = everybody;
    const { exchanges } = setup;
    const ahead = this.#broken('a rank starts an exchange before it waits for the previous one');
    for (let n = 1; n <= exchanges; n++) {
      if (n === exchanges && this.#broken('a rank closes before it sends its last exchange'))
        this.#leave(Rank.closed);
      if (!ahead || n === 1) this.#start(n);
      if (ahead && n < exchanges) this.#start(n + 1);
      this.#wait(n);
    }
    this.#boundary();
    this.by.goto(this.close);
    this.#end();
  }

  #broken(how: HaloMutation): boolean {
    return this.#setup.broken === how;
  }

  /** Emits one access to shared memory. */
  #access(says: string, act: (state: State) => void): void {
    this.by.step(says, (state, next) => {
      act(state);
      return next;
    });
  }
  /** Emits an act that no other rank sees. It runs together with the step before it. */
  #quietly(act: (state: State) => void): void {
    const run = (state: State, next: number): number => {
      act(state);
      return next;
    };
    this.by.step('', run, { local: true });
  }
  #jump(when: (state: State) => boolean, to: Label): void {
    this.by.step('', (state, next) => (when(state) ? to.at : next), { local: true });
  }
  #boundary(): void {
    this.boundaries.add(this.by.steps.length);
  }
  #ring(these: readonly Program[]): void {
    const how: Ringing = {
      broken: this.#broken('a ringer reads the flag before it increments the bell')
        ? 'flag first'
        : undefined,
    };
    for (const each of new Set(these)) ring(this.by, each, how);
  }
  #half(buffer: number, exchange: number): number {
    return 2 * buffer + (this.#broken('a rank uses only one half of a buffer') ? 0 : exchange % 2);
  }
  #store(says: string, at: number, value: number): void {
    this.#access(says, (state) => {
      state[at] = value;
    });
  }
  #local(state: State): number {
    return state[LOCAL + this.by.agent]!;
  }
  #setLocal(state: State, value: number): void {
    state[LOCAL + this.by.agent] = value;
  }

  #start(n: number): void {
    const { by } = this;
    this.#boundary();
    for (const { outgoing } of this.routes) {
      const word = memory.WORD + this.#half(outgoing, n);
      this.#access(`looks whether its half for exchange ${n} is empty`, (state) => {
        if (state[word] !== 0)
          throw new Violation(
            'Exchange-2',
            `${by.name} starts exchange ${n} and its half holds ${state[word]}`,
          );
      });
    }
    const late = this.#broken('a rank fills a half before it packs the data');
    if (!late) this.#pack(n);
    this.#quietly((state) => {
      this.#setLocal(state, this.routes.length === 2 ? 3 : 1);
      state[memory.NUMBER + by.agent] = n;
    });
    if (!this.#setup.device) this.#send(n);
    if (late) this.#pack(n);
  }

  #pack(n: number): void {
    for (const { outgoing } of this.routes) {
      if (!this.#setup.device)
        this.#store(`packs exchange ${n}`, memory.DATA + this.#half(outgoing, n), n);
      else this.#enqueue(`enqueues the packing of exchange ${n}`, memory.STREAM, memory.packing(n));
    }
  }
  #enqueue(says: string, on: readonly number[], operation: number): void {
    this.#access(says, (state) => memory.enqueue(state, on[this.by.agent]!, operation));
  }

  #send(n: number): void {
    const readers = this.routes.map(({ sender }) => this.#everybody[sender]!);
    const [early, late] = [
      this.#broken('a rank rings the reader before it stores the word'),
      this.#broken('a rank does not ring the reader'),
    ];
    const empty = () => {
      if (n === 1 || this.#broken('a rank does not empty the halves that it receives')) return;
      for (const { incoming } of this.routes)
        this.#store(
          `empties its half of exchange ${n - 1}`,
          memory.WORD + this.#half(incoming, n - 1),
          0,
        );
    };
    const emptyLate = this.#broken('a rank empties a half after it sends the next exchange');
    if (!emptyLate) empty();
    if (early) this.#ring(readers);
    for (const { outgoing } of this.routes)
      this.#store(`fills a half with exchange ${n}`, memory.WORD + this.#half(outgoing, n), n);
    if (!early && !late) this.#ring(readers);
    if (emptyLate) empty();
  }

  #wait(n: number): void {
    const { by, routes } = this;
    const [loop, over] = [{ at: 0 }, { at: 0 }];
    const lateBell = this.#broken('a rank reads its bell after it checks the words');
    const early = this.#broken('a rank checks for a failure before it reads its bell');
    this.#boundary();
    by.place(loop);
    const lateFailure = this.#broken('a rank checks for a failure after it checks the words');
    if (early) this.#lookForFailure();
    if (!lateBell) readBell(by);
    if (!early && !lateFailure) this.#lookForFailure();
    if (this.#setup.device) this.#sendOnce(n, loop);
    for (const route of routes) this.#receive(n, route);
    this.#jump((state) => (this.#local(state) & 3) === 0, over);
    if (lateFailure) this.#lookForFailure();
    this.#mind(n);
    if (lateBell) readBell(by);
    // A death rings no bell. The real park has a time limit, so after a death it ends by itself.
    // The model wakes a sleeper only if it would find something.
    const limited = !this.#broken('a rank parks without a time limit');
    const died = (state: State) => (state[memory.FAULTS]! & Fault.death) !== 0;
    park(
      by,
      JAVASCRIPT,
      (state) => limited && died(state) && memory.findsSomething(state, by.agent, routes),
    );
    by.goto(loop);
    by.place(over);
  }

  #lookForFailure(): void {
    if (this.#broken('a rank does not check for a failure')) return;
    const least = this.#broken('a rank reads a failure while another rank writes it')
      ? Note.writing
      : Note.written;
    this.#access('looks for a failure', (state) => {
      if (state[memory.NOTE] === Note.writing && least === Note.writing)
        throw new Violation('Exchange-6', 'a failure is read that is not written yet');
      const seen = state[memory.NOTE]! >= least;
      this.#setLocal(
        state,
        seen ? this.#local(state) | memory.FAILED : this.#local(state) & ~memory.FAILED,
      );
    });
  }

  /**
   * Exchange-5: a rank gives up because of a failure only if an exchange is missing. The failure
   * must have been there before the rank looked for the exchange.
   */
  #mind(n: number): void {
    const none = { at: 0 };
    this.#jump((state) => !(this.#local(state) & memory.FAILED), none);
    // With one route there is no step between the look for the exchange and this check.
    const [{ incoming }, second] = this.routes as [Route, Route?];
    this.#quietly((state) => {
      if (!second && state[memory.WORD + this.#half(incoming, n)] === n)
        throw new Violation(
          'Exchange-5',
          `${this.by.name} gives up exchange ${n}, which was sent before the failure`,
        );
    });
    this.by.goto(this.caught);
    this.by.place(none);
  }

  /** The rank waits for the device in slices, and looks for a failure after each slice. */
  #sendOnce(n: number, loop: Label): void {
    const sent = { at: 0 };
    const stream = memory.STREAM[this.by.agent]!;
    this.#jump((state) => (this.#local(state) & memory.SENT) !== 0, sent);
    this.by.step(`asks whether exchange ${n} is packed`, (state, next) => {
      if (this.#broken('a rank sends before the device packs the data')) return next;
      if (!memory.queued(state, stream, memory.packing(n))) return next;
      if (this.#local(state) & memory.FAILED) return this.caught.at;
      return state[memory.NOTE] === Note.written ? loop.at : BLOCKED;
    });
    this.#send(n);
    this.#quietly((state) => this.#setLocal(state, this.#local(state) | memory.SENT));
    this.by.place(sent);
  }

  #receive(n: number, { bit, sender, incoming }: Route): void {
    const { by } = this;
    const [arrived, none] = [{ at: 0 }, { at: 0 }];
    const half = this.#half(incoming, n);
    const gone = bit << 4;
    const lookAtState = (): void => {
      this.#access(`looks whether rank ${sender} is there`, (state) => {
        const ignored =
          state[memory.RANK + sender] === Rank.lost &&
          this.#broken('a rank ignores that a sender is lost');
        const isGone = memory.isGone(state, sender) && !ignored;
        this.#setLocal(state, isGone ? this.#local(state) | gone : this.#local(state) & ~gone);
      });
    };
    const late = this.#broken('a rank reads the state of a sender after its word');
    this.#jump((state) => (this.#local(state) & bit) === 0, none);
    if (!late) lookAtState();
    const says = `looks for exchange ${n} of rank ${sender}`;
    by.step(says, (state, next) => (state[memory.WORD + half] === n ? arrived.at : next));
    if (late) lookAtState();
    this.#jump((state) => (this.#local(state) & gone) === 0, none);
    this.#quietly((state) => {
      if (state[memory.WORD + half] === n)
        throw new Violation(
          'Exchange-5',
          `${by.name} misses exchange ${n}, which rank ${sender} had sent before it left`,
        );
    });
    by.goto(this.#missed);
    by.place(arrived);
    if (this.#setup.device) {
      const on = this.#broken('a rank unpacks on a second stream')
        ? memory.SIDE_STREAM
        : memory.STREAM;
      this.#enqueue(`enqueues the unpacking of exchange ${n}`, on, memory.unpacking(n));
    } else {
      for (const part of ['first', 'last'])
        this.#access(`reads the ${part} byte of exchange ${n}`, (state) =>
          memory.checkRead(state, half, n),
        );
    }
    this.#quietly((state) => this.#setLocal(state, this.#local(state) & ~(bit | gone)));
    by.place(none);
  }

  #leave(as: typeof Rank.closed | typeof Rank.failed): void {
    const { by } = this;
    const over = { at: 0 };
    const early = this.#broken('a rank rings all bells before it stores that it left');
    const rings = !this.#broken('a rank that leaves rings no bell');
    if (early) this.#ring(this.#everybody);
    by.step(
      as === Rank.closed ? 'says that it is closed' : 'says that it failed',
      (state, next) => {
        if (state[memory.RANK + by.agent] !== Rank.open) return over.at;
        state[memory.RANK + by.agent] = as;
        return next;
      },
    );
    if (!early && rings) this.#ring(this.#everybody);
    by.place(over);
  }

  /**
   * The rank fails because another rank is missing, or by itself. After that, and at the end of
   * every run, it closes.
   */
  #end(): void {
    const { by } = this;
    const told = { at: 0 };
    by.place(this.#missed);
    this.#quietly((state) => {
      if (state[memory.FAULTS] === 0)
        throw new Violation('Exchange-6', `${by.name} gives up, and nobody closed, failed or died`);
      state[memory.FAULTS] = state[memory.FAULTS]! | Fault.missed;
    });
    if (this.#broken('a rank that misses data reports no failure')) by.goto(this.caught);
    by.place(this.fail);
    this.#access('begins to write its failure', (state) => {
      const first = state[memory.NOTE] === Note.none;
      if (first) state[memory.NOTE] = Note.writing;
      this.#setLocal(state, first ? memory.WRITES : 0);
    });
    this.#jump((state) => this.#local(state) === 0, told);
    this.#access('has written its failure', (state) => {
      if (state[memory.NOTE] !== Note.writing)
        throw new Violation('Exchange-6', 'a failure is written twice');
      state[memory.NOTE] = Note.written;
    });
    by.place(told);
    this.#leave(Rank.failed);
    by.place(this.caught);
    this.#access('is through with it', () => {});
    by.place(this.close);
    this.#leave(Rank.closed);
    this.#quietly((state) => this.#setLocal(state, 0));
    by.place(this.rest);
    by.end();
    by.end();
  }
}
