/**
 * Models how the steps of a view reach a device. A writer goes round a lane of few places. Pack
 * draws rows one by one, looks up which steps the device holds, and copies the missing steps into
 * the batch. The device gathers one row at a time, then puts the steps that the batch brought into
 * its own memory. Pack's thread may die once, at any moment. The rules Mirror-1 to Mirror-4 are in
 * native/rows/mirror.hpp.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';

export interface DeviceStepsSetup {
  /**
   * number of places of the lane, of steps that the writer adds, of ticks, and of rows in a batch
   */
  places: number;
  steps: number;
  ticks: number;
  rows: number;
  /** whether pack's thread dies once, at any moment */
  death?: boolean;
  broken?: DeviceStepsMutation;
}

export type DeviceStepsMutation =
  | 'pack looks up a step by a torn note'
  | 'pack trusts a copy without checking `reserved` again'
  | 'a successor does not reset the list of held steps'
  | 'the device stores new steps before it gathers rows'
  | 'the device gathers rows before the previous tick stores its steps'
  | 'pack keeps the older of two steps for one place'
  | 'pack marks a step as held when it draws the step';

/** Value of a step that is half written, and the place of a brought step that is put nowhere. */
const [TORN, NOWHERE] = [255, 254];
/**
 * The most places of a lane, rows of a batch, and steps that a batch brings; the number of slots.
 */
const [PLACES, ROWS, MAX_BROUGHT, SLOTS] = [3, 2, 3, 2];
/** Bytes of the state. */
const [RESERVED, COMMITTED, PEN, PACK, ROW, STEP, NUMBER] = [0, 1, 2, 3, 4, 5, 6];
const [PACKED, BEGUN, DONE, GATHERED, PUT, DEATHS] = [7, 8, 9, 10, 11, 12];
const HOST = 13;
const HELD = HOST + PLACES;
const RING = HELD + PLACES;
const SLOT = RING + PLACES;
/**
 * Bytes of a slot. For each row: its step + 1, and where the device finds it. Then the number of
 * brought steps, and for each of them its place and its bytes.
 */
const PIECES = 2 * ROWS;
const SLOT_WIDTH = PIECES + 1 + 2 * MAX_BROUGHT;
const WIDTH = SLOT + SLOTS * SLOT_WIDTH;
const slotAt = (tick: number) => SLOT + (tick % SLOTS) * SLOT_WIDTH;
const Phase = { idle: 0, draws: 1, reads: 2, looks: 3, copies: 4, looksAgain: 5, over: 6 } as const;

export function deviceStepsProtocol(setup: DeviceStepsSetup): Model {
  const { places, steps, ticks, rows, death = false, broken } = setup;
  const is = (how: DeviceStepsMutation) => broken === how;
  const at = (state: State, index: number) => state[index] as number;
  /** Lanes-4: returns the lowest step that no writer can have begun to overwrite. */
  const lowest = (state: State) => Math.max(0, at(state, RESERVED) - places);

  const writes = (state: State): boolean => {
    const step = at(state, COMMITTED);
    if (step === steps) return false;
    const phase = at(state, PEN);
    if (phase === 0) state[RESERVED]!++;
    if (phase === 1) state[HOST + (step % places)] = TORN;
    if (phase === 2) state[HOST + (step % places)] = step + 1;
    if (phase === 3) state[COMMITTED]!++;
    state[PEN] = (phase + 1) % 4;
    return true;
  };

  const begins = (state: State): boolean => {
    const tick = at(state, PACKED);
    if (at(state, PACK) !== Phase.idle || tick === ticks || tick - at(state, DONE) === SLOTS)
      return false;
    if (at(state, COMMITTED) === 0) return false;
    // Mirror-3: a predecessor had begun this batch, so what the device holds is unknown.
    if (at(state, BEGUN) === tick + 1 && !is('a successor does not reset the list of held steps'))
      state.fill(0, HELD, HELD + places);
    state[BEGUN] = tick + 1;
    state.fill(0, slotAt(tick), slotAt(tick) + SLOT_WIDTH);
    state[PACK] = Phase.draws;
    state[ROW] = 0;
    return true;
  };

  /** Draws the oldest step that is stored, or the newest. */
  const draws =
    (newest: boolean) =>
    (state: State): boolean => {
      if (at(state, PACK) !== Phase.draws) return false;
      const to = at(state, COMMITTED);
      const from = Math.max(lowest(state), to - places);
      if (from >= to || (newest && from === to - 1)) return false;
      const step = newest ? to - 1 : from;
      state[STEP] = step;
      if (is('pack marks a step as held when it draws the step'))
        state[HELD + (step % places)] = step + 1;
      state[PACK] = Phase.reads;
      return true;
    };

  /** Reads the step's number from its note. An overwritten note gives a later step. */
  const reads = (state: State): boolean => {
    if (at(state, PACK) !== Phase.reads) return false;
    const step = at(state, STEP);
    state[NUMBER] = at(state, HOST + (step % places)) === step + 1 ? step : step + places;
    state[PACK] = Phase.looks;
    return true;
  };
  /** Mirror-2: a row is drawn again if its note may be torn. */
  const looks = (state: State): boolean => {
    if (at(state, PACK) !== Phase.looks) return false;
    const lost = lowest(state) > at(state, STEP) && !is('pack looks up a step by a torn note');
    if (lost) state[STEP] = state[NUMBER] = 0;
    state[PACK] = lost ? Phase.draws : Phase.copies;
    return true;
  };

  const copies = (state: State): boolean => {
    if (at(state, PACK) !== Phase.copies) return false;
    const step = at(state, STEP);
    const number = at(state, NUMBER);
    const place = number % places;
    const slot = slotAt(at(state, PACKED));
    const count = at(state, slot + PIECES);
    const piece = (i: number) => slot + PIECES + 1 + 2 * i;
    let found = -1;
    for (let i = 0; i < count; i++) if (at(state, piece(i)) === place) found = i;
    const row = slot + 2 * at(state, ROW);
    if (at(state, HELD + place) === number + 1) state[row + 1] = found < 0 ? place : PLACES + found;
    else {
      // The batch has no room for another step, so pack begins the batch again.
      if (count === MAX_BROUGHT) {
        state[PACK] = Phase.idle;
        return true;
      }
      if (found >= 0 && !is('pack keeps the older of two steps for one place'))
        state[piece(found)] = NOWHERE;
      else if (found >= 0) state[piece(count)] = NOWHERE;
      if (found < 0 || !is('pack keeps the older of two steps for one place'))
        state[piece(count)] = place;
      state[piece(count) + 1] = at(state, HOST + place);
      state[HELD + place] = number + 1;
      state[row + 1] = PLACES + count;
      state[slot + PIECES]!++;
    }
    state[row] = step + 1;
    state[PACK] = Phase.looksAgain;
    return true;
  };

  /**
   * Mirror-1: a row is drawn again if a writer may have begun to overwrite it before the copy was
   * done.
   */
  const looksAgain = (state: State): boolean => {
    if (at(state, PACK) !== Phase.looksAgain) return false;
    const lost =
      lowest(state) > at(state, STEP) &&
      !is('pack trusts a copy without checking `reserved` again');
    if (!lost) state[ROW]!++;
    state[PACK] = lost || at(state, ROW) < rows ? Phase.draws : Phase.over;
    state[STEP] = state[NUMBER] = 0;
    return true;
  };

  const handsOn = (state: State): boolean => {
    if (at(state, PACK) !== Phase.over) return false;
    state[PACKED]!++;
    state[PACK] = state[ROW] = 0;
    return true;
  };

  /** The device's step in its current tick: it gathers all rows, then puts all brought steps. */
  const runs = (state: State): boolean => {
    const tick = at(state, DONE);
    if (tick >= at(state, PACKED)) return false;
    const slot = slotAt(tick);
    const [gathered, put, count] = [at(state, GATHERED), at(state, PUT), at(state, slot + PIECES)];
    const early = is('the device stores new steps before it gathers rows');
    if (gathered < rows && (!early || put === count)) {
      gathers(state, slot, gathered);
      state[GATHERED]!++;
      return true;
    }
    if (put < count) {
      const piece = slot + PIECES + 1 + 2 * put;
      if (at(state, piece) !== NOWHERE) state[RING + at(state, piece)] = at(state, piece + 1);
      state[PUT]!++;
      return true;
    }
    state[DONE]!++;
    state[GATHERED] = state[PUT] = 0;
    return true;
  };
  /**
   * Gathers the next tick's rows before this tick has put its steps, which only a mutation does.
   */
  const runsAhead = (state: State): boolean => {
    const next = at(state, DONE) + 1;
    if (
      !is('the device gathers rows before the previous tick stores its steps') ||
      next >= at(state, PACKED)
    )
      return false;
    for (let row = 0; row < rows; row++) gathers(state, slotAt(next), row);
    return false;
  };
  const gathers = (state: State, slot: number, row: number) => {
    const [step, where] = [at(state, slot + 2 * row) - 1, at(state, slot + 2 * row + 1)];
    const found =
      where < PLACES
        ? at(state, RING + where)
        : at(state, slot + PIECES + 1 + 2 * (where - PLACES) + 1);
    if (found !== step + 1)
      throw new Violation('M', `step ${step} is drawn, and ${found - 1} is gathered`);
  };

  const dies = (state: State): boolean => {
    if (!death || at(state, DEATHS) === 1) return false;
    state[DEATHS] = 1;
    state[PACK] = state[ROW] = state[STEP] = state[NUMBER] = 0;
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
      move('pack begins a batch', begins),
      move('pack draws the oldest step', draws(false)),
      move('pack draws the newest step', draws(true)),
      move('pack reads a note', reads),
      move('pack looks whether it is whole', looks),
      move('pack looks a row up, and copies it', copies),
      move('pack looks again', looksAgain),
      move('pack hands the slot on', handsOn),
      move('the device goes on', runs),
      move('the device goes ahead', runsAhead),
      move("pack's thread dies", dies, true),
    ],
    start: () => {},
    unfinished: (state) => {
      const done = at(state, DONE);
      return done === ticks ? null : `${done} of ${ticks} ticks are over`;
    },
  };
}
