/**
 * The stores of the writers of one modelled lane, in order. The first writer stores until it ends
 * or dies, then its successor does. A writer waits for nobody and loads nothing that others store.
 * So all its stores are known beforehand, and so is what each place should hold.
 */
import type { LanesMutation, LanesSetup } from './lanes.ts';

/**
 * Index of the word that a store writes. Place n has its note at `note + n mod places` and its
 * bytes at `bytes + n mod places`.
 */
export const At = { begun: 0, committed: 1, steps: 2, note: 3, bytes: 8 } as const;

export interface Store {
  readonly at: number;
  readonly value: number;
  /** a thread that acquires this store sees every store up to this number */
  readonly brings: number;
  readonly says: string;
}

/** What a note or the bytes of a place contain. Every write of a place makes a new version. */
export interface Version {
  readonly place: number;
  readonly final: boolean;
  readonly ends: boolean;
  /** number of the step in its episode, as the note says */
  readonly step: number;
  /** number of steps written before it, as the note says */
  readonly before: number;
  /** the episode, which no note contains: a writer's first episode is always a new one */
  readonly episode: number;
}

export interface Life {
  /** numbered from 1; number 0 is the initial value of every word and place */
  readonly stores: Store[];
  /** version v is `versions[v - 1]`; version 0 is a place that was never written */
  readonly versions: Version[];
  /** the version that each committed place should hold */
  readonly truth: number[];
  readonly begun: number;
  readonly committed: number;
  /**
   * the true count of steps, or −1 if nobody could correct it: a writer died after its commit and
   * has no successor
   */
  readonly steps: number;
}

/**
 * The steps that a writer adds, one letter each. `e` is a step that ends its episode and brings its
 * final observation.
 */
type Script = string;

class Pen {
  readonly stores: Store[] = [];
  readonly versions: Version[] = [];
  /** by store: the versions of the places that it commits */
  readonly commits = new Map<number, number[]>();
  readonly #places: number;
  readonly #broken: LanesMutation | undefined;
  #episode = 0;
  #fence = 0;

  constructor({ places, broken }: LanesSetup) {
    this.#places = places;
    this.#broken = broken;
  }

  newest(at: number): number {
    return this.stores.findLast((store) => store.at === at)?.value ?? 0;
  }

  #store(says: string, at: number, value: number, released = false): void {
    this.stores.push({ at, value, brings: released ? this.stores.length + 1 : this.#fence, says });
  }

  /** Makes the writer die after `after` stores. */
  die(after: number): void {
    this.stores.length = after;
    for (const i of this.commits.keys()) if (i >= after) this.commits.delete(i);
  }

  /** Returns the versions of the committed places, as the stores made so far say. */
  truth(): number[] {
    const truth: number[] = [];
    this.stores.forEach((_, i) => {
      for (const version of this.commits.get(i) ?? [])
        truth[this.versions[version - 1]!.place] = version;
    });
    return truth;
  }

  /** Emits the first acts of a successor. Returns the step number at which it continues. */
  takeOver(): number {
    this.#fence = 0;
    const committed = this.newest(At.committed);
    const truth = this.truth();
    if (committed > 0 && this.#broken !== 'a successor does not correct the count of steps') {
      const last = this.versions[truth[committed - 1]! - 1];
      if (last)
        this.#store('puts steps right', At.steps, last.final ? last.before : last.before + 1, true);
    }
    if (this.#broken === 'a successor lowers `begun` to `committed`')
      this.#store('lowers begun', At.begun, committed);
    if (this.#broken !== 'a successor continues the episode of the dead writer') return 0;
    const last = this.versions[truth[committed - 1]! - 1];
    return last && !last.final ? last.step + 1 : 0;
  }

  write(script: Script, firstStep = 0): void {
    let step = firstStep;
    this.#episode++;
    for (const letter of script) {
      const ends = letter === 'e';
      this.#add(step++, ends);
      if (!ends) continue;
      this.#episode++;
      step = 0;
    }
  }

  #add(step: number, ends: boolean): void {
    const broken = this.#broken;
    const goesOn =
      broken === 'a successor continues at `begun` instead of `committed`'
        ? At.begun
        : At.committed;
    const place = Math.max(this.newest(At.committed), this.newest(goesOn));
    const before = this.newest(At.steps);
    const episode = this.#episode;
    const own = this.#version({ place, final: false, ends, step, before, episode });
    const end = place + (ends ? 2 : 1);
    const begin = () => {
      const least =
        broken === 'the writer does not count the final observation in `begun`' ? place + 1 : end;
      const there = this.newest(At.begun) >= least;
      if (!there) this.#store(`stores begun = ${least}`, At.begun, least);
      const unfenced = there && broken === 'a successor does not fence if `begun` is high enough';
      if (!unfenced && broken !== 'the writer does not fence after it stores `begun`')
        this.#fence = this.stores.length;
    };
    const commit = (to: number, versions: number[]) => {
      this.commits.set(this.stores.length, versions);
      this.#store(
        `stores committed = ${to}`,
        At.committed,
        to,
        broken !== 'the writer stores `committed` without release order',
      );
    };

    const late = broken === 'the writer stores `begun` after the bytes';
    const early = broken === 'the writer stores `committed` before the bytes';
    const apart = broken === 'the writer commits a step without its final observation';
    if (!late) begin();
    if (early) commit(end, [own]);
    this.#fill(place, own);
    if (!ends || apart) {
      if (late) begin();
      if (!early) commit(place + 1, [own]);
    }
    if (ends) {
      const last = {
        place: place + 1,
        final: true,
        ends: false,
        step: step + 1,
        before: before + 1,
        episode,
      };
      const final = this.#version(last);
      this.#fill(place + 1, final);
      if (late) begin();
      if (!early) commit(end, apart ? [final] : [own, final]);
    }
    this.#store(`stores steps = ${before + 1}`, At.steps, before + 1, true);
  }

  #version(version: Version): number {
    return this.versions.push(version);
  }

  /** Emits plain stores of a place's fields and of its note. */
  #fill(place: number, version: number): void {
    const at = place % this.#places;
    this.#store(`writes place ${place}`, At.bytes + at, version);
    this.#store(`writes the note of place ${place}`, At.note + at, version);
  }
}

/** Returns the life of a lane whose first writer dies after `diesAfter` stores, or never. */
export function lifeOf(setup: LanesSetup, diesAfter?: number): Life {
  const pen = new Pen(setup);
  pen.write(setup.writer);
  if (diesAfter !== undefined) pen.die(diesAfter);
  const followed = setup.successor !== undefined && setup.successor !== '';
  if (followed) pen.write(setup.successor!, pen.takeOver());
  const truth = pen.truth();
  const counted = diesAfter === undefined || followed;
  return {
    stores: pen.stores,
    versions: pen.versions,
    truth,
    begun: pen.newest(At.begun),
    committed: pen.newest(At.committed),
    steps: counted ? pen.newest(At.steps) : -1,
  };
}
