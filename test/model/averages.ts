/**
 * Models how two learners average their parameters after each tick (actors/averager.ts). Each
 * learner has a replay actor, a poll thread and a stream. Each update must begin from the mean of
 * the update before it. No learner sends, awaits or writes a mean twice, even if a poll thread
 * dies.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';

export interface AveragesSetup {
  ticks: number;
  /** the poll thread of one learner dies at any moment and gets a successor */
  faults?: readonly 'death'[];
  broken?: AveragesMutation;
}

export type AveragesMutation =
  | 'replay does not wait for the mean'
  | 'poll stores `averaged` before it enqueues the mean'
  | 'poll frees the slot before the second `spent` event fires'
  | 'poll stores `begun` after it sends its message'
  | 'a successor does not compare `begun` and `over`'
  | 'poll stores `over` before `averaged`'
  | 'poll sends the parameters before they are in host memory';

/** Byte offsets within one learner's state. */
const L = {
  /** replay: number of launched ticks */
  launched: 0,
  /** poll: its next step (`At`), then the number of ticks whose slot is Free again */
  at: 1,
  free: 2,
  begun: 3,
  over: 4,
  averaged: 5,
  /** two halves that this learner fills and the peer reads: 1 + the tick, or 0 if empty */
  told: 6,
  /**
   * on the device: number of updates and of means that ran; in host memory: 1 + the tick of the
   * parameters
   */
  updates: 8,
  means: 9,
  home: 10,
  /** `spent` events: how many are recorded, and how many are done */
  records: 11,
  done: 12,
  failed: 13,
  /** number of operations in the stream, then the operations in order */
  queued: 14,
  queue: 15,
} as const;
const MAX_QUEUED = 6;
const LEARNER_BYTES = L.queue + MAX_QUEUED + 1;
const DIED = 2 * LEARNER_BYTES;
const Op = { update: 1, mean: 2, spent: 3 } as const;
const At = { look: 0, begin: 1, tell: 2, wait: 3, write: 4, note: 5, over: 6, end: 7 } as const;

export function averagesProtocol({ ticks, faults = [], broken }: AveragesSetup): Model {
  const is = (how: AveragesMutation) => broken === how;
  const moves: Move[] = [];
  const move = (says: string, apply: (state: State) => boolean, optional = false) =>
    moves.push({ optional, says: () => says, apply });

  for (const learner of [0, 1]) {
    const at = (field: number) => learner * LEARNER_BYTES + field;
    const other = (field: number) => (1 - learner) * LEARNER_BYTES + field;
    const name = `learner ${learner}`;
    const failed = (state: State) => state[at(L.failed)] !== 0 || state[other(L.failed)] !== 0;
    const enqueue = (state: State, ...ops: number[]) => {
      for (const op of ops) {
        const n = state[at(L.queued)]!;
        if (n === MAX_QUEUED) throw new Error('the queue is too short');
        state[at(L.queue) + n] = op;
        state[at(L.queued)] = n + 1;
        if (op === Op.spent) state[at(L.records)] = state[at(L.records)]! + 1;
      }
    };

    move(`${name}: replay launches`, (state) => {
      const tick = state[at(L.launched)]!;
      // A learner has two slots, so at most two ticks are launched and not Free.
      if (tick === ticks || tick - state[at(L.free)]! >= 2 || failed(state)) return false;
      if (state[at(L.averaged)]! < tick && !is('replay does not wait for the mean')) return false;
      enqueue(state, Op.update, Op.spent);
      state[at(L.launched)] = tick + 1;
      return true;
    });

    move(`${name}: its stream goes on`, (state) => {
      const n = state[at(L.queued)]!;
      if (n === 0) return false;
      const op = state[at(L.queue)]!;
      state.copyWithin(at(L.queue), at(L.queue) + 1, at(L.queue) + n);
      state[at(L.queue) + n - 1] = 0;
      state[at(L.queued)] = n - 1;
      const [updates, means] = [state[at(L.updates)]!, state[at(L.means)]!];
      if (op === Op.update) {
        if (means !== updates)
          throw new Violation(
            'lock-step',
            `update ${updates} of ${name} begins from ${means} means`,
          );
        state[at(L.updates)] = updates + 1;
        state[at(L.home)] = updates + 1;
      } else if (op === Op.mean) {
        if (updates !== means + 1)
          throw new Violation('twice', `mean ${means} of ${name} is behind ${updates} updates`);
        state[at(L.means)] = means + 1;
      } else state[at(L.done)] = state[at(L.done)]! + 1;
      return true;
    });

    move(`${name}: poll goes on`, (state) => {
      const goto = (step: number) => {
        state[at(L.at)] = step;
        return true;
      };
      const tick = state[at(L.free)]!;
      const half = (tick + 1) % 2;
      const spent = state[at(L.records)]! > 0 && state[at(L.done)] === state[at(L.records)];
      switch (state[at(L.at)]) {
        case At.look: {
          if (tick === ticks) return goto(At.end);
          if (failed(state)) return false;
          const averaged = state[at(L.averaged)]! > tick;
          // Poll works on a tick once its slot is Replaying and its event is done.
          const early = averaged
            ? is('poll frees the slot before the second `spent` event fires')
            : is('poll sends the parameters before they are in host memory');
          if (state[at(L.launched)]! <= tick || (!spent && !early)) return false;
          if (averaged) {
            if (state[at(L.means)]! <= tick)
              throw new Violation('end', `tick ${tick} of ${name} is over before its mean`);
            state[at(L.free)] = tick + 1;
            return true;
          }
          if (
            state[at(L.begun)] !== state[at(L.over)] &&
            !is('a successor does not compare `begun` and `over`')
          ) {
            state[at(L.failed)] = 1;
            return true;
          }
          return goto(is('poll stores `begun` after it sends its message') ? At.tell : At.begin);
        }
        case At.begin:
          state[at(L.begun)] = tick + 1;
          return goto(is('poll stores `begun` after it sends its message') ? At.wait : At.tell);
        case At.tell:
          if (state[at(L.home)] !== tick + 1)
            throw new Violation(
              'home',
              `${name} tells of tick ${tick} what is of ${state[at(L.home)]! - 1}`,
            );
          // A half is empty when its next message is due. A learner that sends a tick again finds
          // the half full, or finds that the peer has already read the message.
          if (state[at(L.told + half)] !== 0 || state[other(L.over)]! > tick)
            throw new Violation('twice', `${name} tells tick ${tick} again`);
          state[at(L.told + half)] = tick + 1;
          // Exchange-1: this learner has read the peer's message before, so it empties that half.
          state[other(L.told) + (1 - half)] = 0;
          return goto(is('poll stores `begun` after it sends its message') ? At.begin : At.wait);
        case At.wait:
          if (state[other(L.told) + half] === tick + 1) return goto(At.write);
          if (!failed(state)) return false;
          state[at(L.failed)] = 1;
          return goto(At.look);
        case At.write:
          if (
            is('poll stores `averaged` before it enqueues the mean') &&
            state[at(L.averaged)] === tick
          ) {
            state[at(L.averaged)] = tick + 1;
            return true;
          }
          enqueue(state, Op.mean, Op.spent);
          if (is('poll stores `averaged` before it enqueues the mean')) return goto(At.over);
          return goto(is('poll stores `over` before `averaged`') ? At.over : At.note);
        case At.note:
          state[at(L.averaged)] = tick + 1;
          return goto(is('poll stores `over` before `averaged`') ? At.look : At.over);
        case At.over:
          state[at(L.over)] = state[at(L.begun)]!;
          return goto(is('poll stores `over` before `averaged`') ? At.note : At.look);
        default:
          return false;
      }
    });

    if (faults.includes('death'))
      move(
        `${name}: poll's thread dies`,
        (state) => {
          if (state[DIED] !== 0 || state[at(L.at)] === At.end) return false;
          state[DIED] = 1;
          state[at(L.at)] = At.look;
          return true;
        },
        true,
      );
  }

  return {
    width: Math.ceil((DIED + 1) / 4) * 4,
    moves,
    start: (state) => void state.fill(0),
    unfinished(state) {
      const at = (learner: number, field: number) => state[learner * LEARNER_BYTES + field]!;
      if (at(0, L.failed) || at(1, L.failed)) {
        // The failure reached both learners: none waits in an exchange.
        for (const learner of [0, 1])
          if (at(learner, L.at) === At.wait) return `learner ${learner} is not told`;
        return state[DIED] ? null : 'the group failed, and nobody died';
      }
      for (const learner of [0, 1]) {
        if (at(learner, L.at) !== At.end)
          return `learner ${learner} waits at tick ${at(learner, L.free)}`;
        if (at(learner, L.means) !== ticks)
          return `learner ${learner} ends with ${at(learner, L.means)} means`;
      }
      return null;
    },
  };
}
