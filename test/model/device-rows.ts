/**
 * Models how replay rows reach a device. A writer may overwrite rows at any moment. Pack's thread
 * orders copies and writes heads, and may die once at any moment. The device copies and draws one
 * row at a time, and poll sees when copies and draws are done. The rules DeviceRows-1 to
 * DeviceRows-5 are in src/engine/device-rows/control-block.ts.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';

export interface DeviceRowsSetup {
  /**
   * number of rows that the host buffer holds, that the device holds, and that a draw leaves out as
   * a guard
   */
  capacity: number;
  places: number;
  guard: number;
  /** the most rows of one span */
  most: number;
  /** number of rows that the writer adds, and number of ticks that are drawn */
  rows: number;
  ticks: number;
  /** whether pack's thread dies once, at any moment */
  death?: boolean;
  broken?: DeviceRowsMutation;
}

export type DeviceRowsMutation =
  | 'poll makes rows visible before the event of their copies'
  | 'poll does not check `reserved`'
  | 'poll reads `reserved` before the event fires'
  | 'pack enqueues copies one row past the guard'
  | 'pack enqueues copies without checking the heads'
  | 'pack checks only the newest head'
  | 'pack counts a launched head as spent'
  | 'pack publishes the record before it enqueues the copies'
  | 'poll does not raise `low` after a gap'
  | 'pack writes a head during copies over its rows'
  | 'pack ignores copies that have no published record'
  | 'pack checks a head against a newer `visible`'
  | 'pack overwrites a head before it is spent'
  | 'a successor skips rows that were only enqueued'
  | 'poll counts a span as done before it records the rows';

/** Value of a row that is half written. */
const TORN = 255;
const SLOTS = 2;
/** Bytes of the state: counters, then rows, records, the queue of copies and the heads. */
const [RESERVED, COMMITTED, PEN, SUBMITTED, DONE, ORDERED, COPIED, COPY_ROW, COPY_HALF] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8,
];
const [POLL, LOST, PACK, FROM, TO, SLOT, TICKS, DEATHS, BEGUN] = [
  9, 10, 11, 12, 13, 14, 15, 16, 17,
];
const [HOST, DEVICE, SPAN, QUEUE, HEAD, GIVEN] = [18, 23, 28, 40, 44, 52];
const WIDTH = 56;
/** the most rows that the host's and the device's memory have room for in this model */
const MAX_PLACES = 5;
/**
 * A record has: from, to, low. A head has: its state, low, until, and the next row that the device
 * reads. `given` has: low, until.
 */
const HeadState = { free: 0, written: 1, launched: 2, spent: 3 } as const;
const span = (number: number) => SPAN + (number % 4) * 3;
const head = (slot: number) => HEAD + slot * 4;
/** The rows that a launch gave the device, until it has drawn them. */
const given = (slot: number) => GIVEN + slot * 2;

export function deviceRowsProtocol(setup: DeviceRowsSetup): Model {
  const { capacity, places, guard, most, rows, ticks, death = false, broken } = setup;
  if (Math.max(capacity, places) > MAX_PLACES)
    throw new Error(`the model's memories hold ${MAX_PLACES} rows each`);
  const is = (how: DeviceRowsMutation) => broken === how;
  const at = (state: State, index: number) => state[index] as number;
  const reach = (state: State) => {
    const record = span(at(state, DONE) + 3);
    return { visible: at(state, record + 1), low: at(state, record + 2) };
  };
  const next = (state: State) => at(state, span(at(state, SUBMITTED) + 3) + 1);
  const underWay = (state: State) => at(state, SUBMITTED) - at(state, DONE);
  const leastHead = (state: State) => {
    let least = 200;
    for (let slot = 0; slot < SLOTS; slot++) {
      const now = at(state, head(slot));
      const spent =
        now === HeadState.free ||
        (is('pack counts a launched head as spent') && now >= HeadState.launched);
      if (
        spent ||
        (is('pack checks only the newest head') && slot !== (at(state, TICKS) - 1) % SLOTS)
      )
        continue;
      least = Math.min(least, at(state, head(slot) + 1));
    }
    return is('pack enqueues copies without checking the heads') ? 200 : least;
  };

  const writes = (state: State): boolean => {
    const row = at(state, COMMITTED);
    if (row === rows) return false;
    const phase = at(state, PEN);
    if (phase === 0) state[RESERVED]!++;
    if (phase === 1) state[HOST + (row % capacity)] = TORN;
    if (phase === 2) state[HOST + (row % capacity)] = row + 1;
    if (phase === 3) state[COMMITTED]!++;
    state[PEN] = (phase + 1) % 4;
    return true;
  };

  /**
   * DeviceRows-5 has two halves: how far copies may go, and during which copies pack may write a
   * head.
   */
  const beside = guard + (is('pack enqueues copies one row past the guard') ? 1 : 0);

  /**
   * Steps of actors/ingest.ts: pack reads the words, orders the copies, then publishes the record.
   */
  const orders = (state: State): boolean => {
    if (at(state, PACK) === 0) {
      const { visible } = reach(state);
      const committed = at(state, COMMITTED);
      let from = next(state);
      if (underWay(state) >= 2 || committed <= from) return false;
      const oldest = Math.max(at(state, RESERVED) - capacity, committed - places);
      const lapped = from < oldest;
      if (lapped && underWay(state) > 0) return false;
      if (lapped) from = Math.min(oldest, committed);
      const to = Math.min(
        committed,
        from + most,
        leastHead(state) + places,
        lapped ? committed : visible + beside,
      );
      if (to <= from) return false;
      state[FROM] = from;
      state[TO] = state[BEGUN] = to;
      state[PACK] = 1;
      return true;
    }
    const early = is('pack publishes the record before it enqueues the copies');
    const phase = at(state, PACK);
    if (phase > 2) return false;
    if ((phase === 1) !== early) {
      const place = QUEUE + (at(state, ORDERED) % 2) * 2;
      // A dead predecessor may have ordered copies without a record. They are on the same stream,
      // so this thread's copies run after them.
      if (at(state, ORDERED) - at(state, COPIED) >= 2) return false;
      state[place] = at(state, FROM);
      state[place + 1] = at(state, TO);
      state[ORDERED]!++;
    } else {
      const record = span(at(state, SUBMITTED));
      state[record] = at(state, FROM);
      state[record + 1] = at(state, TO);
      state[SUBMITTED]!++;
    }
    state[PACK] = phase === 1 ? 2 : 0;
    if (phase === 2) state[FROM] = state[TO] = 0;
    return true;
  };

  /** Steps of headPacker(). Pack hands the slot on with a store of its own. */
  const draws = (state: State): boolean => {
    if (at(state, PACK) === 3) {
      const place = head(at(state, SLOT));
      state[place] = HeadState.launched;
      state.set([at(state, place + 1), at(state, place + 2)], given(at(state, SLOT)));
      state[PACK] = state[SLOT] = 0;
      return true;
    }
    const slot = at(state, TICKS) % SLOTS;
    if ((at(state, PACK) !== 0 && at(state, PACK) !== 4) || at(state, TICKS) === ticks)
      return false;
    const anew =
      is('pack overwrites a head before it is spent') &&
      at(state, head(slot)) === HeadState.launched;
    if (at(state, head(slot)) !== HeadState.free && !anew) return false;
    // Pack reads `visible` and `low` in one step, and checks in a later step, with these values,
    // which copies are in progress.
    const looked = at(state, PACK) === 4;
    const later = is('pack checks a head against a newer `visible`');
    const { visible, low } = looked
      ? { visible: at(state, FROM), low: at(state, TO) }
      : reach(state);
    const until = is('pack ignores copies that have no published record')
      ? next(state)
      : at(state, BEGUN);
    const by = later ? reach(state).visible : visible;
    if (
      until > by + beside &&
      !is('pack writes a head during copies over its rows') &&
      (looked || !later)
    )
      return false;
    const least = Math.max(low, visible - (places - guard));
    if (visible <= least) return false;
    if (!looked) {
      state[FROM] = visible;
      state[TO] = low;
      state[PACK] = 4;
      return true;
    }
    state[FROM] = state[TO] = 0;
    state.set([HeadState.written, least, visible, least], head(slot));
    state[SLOT] = slot;
    state[TICKS]!++;
    state[PACK] = 3;
    return true;
  };

  const copies = (state: State): boolean => {
    const copied = at(state, COPIED);
    if (copied === at(state, ORDERED)) return false;
    const [from, to] = [
      at(state, QUEUE + (copied % 2) * 2),
      at(state, QUEUE + (copied % 2) * 2 + 1),
    ];
    const row = from + at(state, COPY_ROW);
    if (at(state, COPY_HALF) === 0) {
      state[DEVICE + (row % places)] = TORN;
      state[COPY_HALF] = 1;
      return true;
    }
    state[DEVICE + (row % places)] = at(state, HOST + (row % capacity));
    state[COPY_HALF] = 0;
    state[COPY_ROW] = row + 1 === to ? 0 : at(state, COPY_ROW) + 1;
    if (row + 1 === to) state[COPIED]!++;
    return true;
  };

  /**
   * Steps of poll: it sees the event, reads `reserved`, records the rows that it found, and then
   * counts the span as done.
   */
  const sees = (state: State): boolean => {
    const phase = at(state, POLL);
    const early = is('poll reads `reserved` before the event fires');
    const look = () => {
      state[LOST] = Math.max(
        0,
        is('poll does not check `reserved`') ? 0 : at(state, RESERVED) - capacity,
      );
    };
    if (phase === 0) {
      if (underWay(state) === 0) return false;
      // If no event was recorded after this span's copies, a query says that the event is done.
      const over =
        at(state, COPIED) === at(state, ORDERED) ||
        is('poll makes rows visible before the event of their copies') ||
        early;
      if (!over && !eventOver(state)) return false;
      look();
      state[POLL] = 1;
      return true;
    }
    if (phase === 1) {
      if (early && !eventOver(state) && at(state, COPIED) !== at(state, ORDERED)) return false;
      if (!early) look();
      state[POLL] = 2;
      return true;
    }
    const found = () => {
      const record = span(at(state, DONE) - (phase === 3 && late ? 1 : 0));
      const before = span(at(state, DONE) + 3 - (phase === 3 && late ? 1 : 0));
      const [from, to, lost] = [at(state, record), at(state, record + 1), at(state, LOST)];
      const first = Math.min(Math.max(from, lost), to);
      const gap = from > at(state, before + 1) && !is('poll does not raise `low` after a gap');
      state[record + 2] = gap || first > from ? first : at(state, before + 2);
    };
    const late = is('poll counts a span as done before it records the rows');
    if ((phase === 2) !== late) found();
    else state[DONE]!++;
    state[POLL] = phase === 2 ? 3 : 0;
    if (phase === 3) state[LOST] = 0;
    return true;
  };
  /**
   * Whether the oldest span's copies are done. Copies of a dead predecessor run before them and
   * have no span.
   */
  const eventOver = (state: State) =>
    at(state, ORDERED) - at(state, COPIED) < underWay(state) + (at(state, PACK) === 2 ? 1 : 0);

  const reads =
    (slot: number) =>
    (state: State): boolean => {
      const place = head(slot);
      if (at(state, place) === HeadState.spent) {
        state.set([0, 0, 0, 0], place);
        return true;
      }
      const [low, until] = [at(state, given(slot)), at(state, given(slot) + 1)];
      if (until === 0) return false;
      if (low !== at(state, place + 1) || until !== at(state, place + 2))
        throw new Violation(
          'DeviceRows-4',
          `a head of rows ${low} to ${until} is another while they are drawn`,
        );
      const row = at(state, place + 3);
      if (at(state, DEVICE + (row % places)) !== row + 1)
        throw new Violation(
          'DeviceRows-1',
          `row ${row} is drawn, and its place holds ${at(state, DEVICE + (row % places)) - 1}`,
        );
      state[place + 3]!++;
      if (row + 1 < until) return true;
      state[place] = HeadState.spent;
      state.set([0, 0], given(slot));
      return true;
    };

  const dies = (state: State): boolean => {
    if (!death || at(state, DEATHS) === 1) return false;
    state[DEATHS] = 1;
    const orphan = at(state, PACK) === 2;
    if (orphan && is('a successor skips rows that were only enqueued')) {
      state[span(at(state, SUBMITTED) + 3) + 1] = at(state, TO);
    }
    // The successor writes a head again if it was not handed on.
    if (at(state, PACK) === 3) {
      state.set([0, 0, 0, 0], head(at(state, SLOT)));
      state[TICKS]!--;
    }
    state[PACK] = state[FROM] = state[TO] = state[SLOT] = 0;
    return true;
  };

  const move = (says: string, apply: (state: State) => boolean, optional = false): Move => ({
    optional,
    says: () => says,
    apply,
  });
  return {
    width: WIDTH,
    moves: [
      move('the writer goes on', writes),
      move('pack orders copies', orders),
      move('pack writes a head', draws),
      move('the device copies', copies),
      move('poll looks', sees),
      ...Array.from({ length: SLOTS }, (_, slot) =>
        move(`the device draws, or poll frees, slot ${slot}`, reads(slot)),
      ),
      move("pack's thread dies", dies, true),
    ],
    start: () => {},
    unfinished: (state) => {
      const { visible } = reach(state);
      return visible === rows ? null : `rows up to ${visible} of ${rows} have come`;
    },
  };
}
