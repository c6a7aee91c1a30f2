/**
 * The reader's list of drawable steps, built from the notes that it trusts, as
 * native/rows/drawable.cpp does. The list is compared with one that brute force finds in the true
 * episodes. Nothing here loads shared memory.
 */
import { type State, Violation } from './checker.ts';
import type { LanesMutation, LanesSetup } from './lanes.ts';
import * as memory from './lanes-memory.ts';
import { NOW_FROM, NOW_TO, SEEN_FROM, SEEN_TO } from './lanes-memory.ts';
import type { Life, Version } from './lanes-writer.ts';

const UNWRITTEN: Version = { place: -1, final: false, ends: false, step: 0, before: 0, episode: 0 };

export class Drawable {
  readonly #setup: LanesSetup;
  readonly #lifeOf: (state: State) => Life;
  readonly #back: number;
  readonly #n: number;

  constructor(setup: LanesSetup, lifeOf: (state: State) => Life) {
    this.#setup = setup;
    this.#lifeOf = lifeOf;
    this.#back = (setup.frames ?? 1) - 1;
    this.#n = setup.n ?? 1;
  }

  #broken(how: LanesMutation): boolean {
    return this.#setup.broken === how;
  }

  /** Returns what a note or a place contains that has this version. */
  versionOf(state: State, version: number | undefined): Version {
    return (version && this.#lifeOf(state).versions[version - 1]) || UNWRITTEN;
  }

  /** Starts a new span: removes the steps that the span does not contain. */
  drop(state: State): void {
    const from = state[NOW_FROM]!;
    const lapped = from > state[SEEN_TO]!;
    if (lapped) {
      state[memory.LIST] = state[memory.LIST + 1] = 0;
      state[memory.RUNNING] = 0;
      if (!this.#broken('a lapped reader continues at its old place')) state[SEEN_TO] = from;
    }
    for (const place of memory.list(state)) {
      // The real code has stored the reach when it listed the step. The model computes the reach
      // again, from the note that the step had then.
      const { step } = this.versionOf(state, this.#lifeOf(state).truth[place]);
      const reach = this.#broken('the reader keeps a stack until its last frame is gone')
        ? 0
        : Math.min(step, this.#back);
      if (place - reach >= from) break;
      memory.put(state, place, false);
    }
    state[SEEN_FROM] = from;
  }

  /** Reads the next note. The reader trusts it, so it equals the true note. */
  take(state: State, place: number): void {
    const note = this.versionOf(state, this.#lifeOf(state).truth[place]);
    if (note.final) {
      if (state[memory.RUNNING]) this.#judge(state, place, 1, true);
      state[memory.RUNNING] = 0;
      return;
    }
    const first =
      note.step === 0 &&
      !this.#broken('the reader treats the first step of an episode as the next one');
    if (!state[memory.RUNNING] || first) {
      state[memory.RUNNING] = 1;
      state[memory.START] = place - Math.min(note.step, place);
      state[memory.PENDING] = place;
    }
    this.#judge(state, place, this.#n, false);
  }

  /** Lists the pending steps that have at least `needed` places of their episode before `end`. */
  #judge(state: State, end: number, needed: number, ended: boolean): void {
    for (; state[memory.PENDING]! + needed <= end; state[memory.PENDING]!++) {
      const place = state[memory.PENDING]!;
      const reach = Math.min(place - state[memory.START]!, this.#back);
      if (place >= state[NOW_FROM]! + reach) memory.put(state, place, true);
    }
    if (ended) state[memory.PENDING] = end;
  }

  /**
   * Compares the list with brute force over the true episodes: a step is drawable if all that its
   * view needs is in [from, to).
   */
  checkList(state: State): void {
    const life = this.#lifeOf(state);
    const [from, to] = [state[SEEN_FROM]!, state[SEEN_TO]!];
    const at = (place: number) =>
      place < to ? this.versionOf(state, life.truth[place]) : UNWRITTEN;
    const drawable = Array.from({ length: to - from }, (_, i) => from + i).filter((place) => {
      const { final, step, episode } = at(place);
      if (final || place - Math.min(step, this.#back) < from) return false;
      const whole = (end: number) => at(end).episode === episode;
      const ended = Array.from({ length: to - place }, (_, i) => place + i).some(
        (end) => at(end).final && whole(end),
      );
      return ended || whole(place + this.#n);
    });
    const listed = memory.list(state);
    if (`${listed}` !== `${drawable}`)
      throw new Violation(
        'list',
        `of places ${from} to ${to} it lists [${listed}], drawable are [${drawable}]`,
      );
  }

  /**
   * Checks the span alone. A span is never longer than the ring and never moves back. It contains a
   * step that ends an episode only with its final observation.
   */
  checkSpan(state: State): void {
    const [from, to] = [state[NOW_FROM]!, state[NOW_TO]!];
    const { truth, versions } = this.#lifeOf(state);
    if (to - from > this.#setup.places)
      throw new Violation('Lanes-2', `places ${from} to ${to} are more than there are`);
    if (from < state[SEEN_FROM]!) throw new Violation('Lanes-6', `place ${from} is there again`);
    if (to < state[SEEN_TO]!)
      throw new Violation('Lanes-1', `place ${to} is not committed any more`);
    if (to > 0 && versions[truth[to - 1]! - 1]?.ends)
      throw new Violation(
        'Lanes-3',
        `step ${to - 1} ends its episode, and its final observation is not there`,
      );
  }

  /**
   * Checks the end, after the last look: every committed step that the ring keeps is seen, and the
   * count of steps is right.
   */
  checkEnd(state: State): void {
    const { begun, committed, steps, truth } = this.#lifeOf(state);
    const floor = state[memory.FLOORS] ? state[memory.FLOOR + state[memory.FLOORS]! - 1]! : 0;
    const from = Math.min(Math.max(0, begun - this.#setup.places, floor), committed);
    if (state[SEEN_FROM] !== from || state[SEEN_TO] !== committed)
      throw new Violation(
        'list',
        `${state[SEEN_FROM]} to ${state[SEEN_TO]} are seen, there are ${from} to ${committed}`,
      );
    const counted = truth.filter((version) => !this.versionOf(state, version).final).length;
    if (steps >= 0 && steps !== counted)
      throw new Violation('count', `${counted} steps are counted as ${steps}`);
  }
}
