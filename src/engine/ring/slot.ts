/**
 * A slot's life: its states, its record, and the invariants every role keeps. Only this file draws
 * the bytes, and only `Ring` writes the state word.
 *
 * Slot-1  the state names the owner, and no other role writes the slot (record, host buffer, device
 *     half).
 * Slot-2  one store of the state word hands the slot on, after every write it publishes. A write by
 *     native code counts only once its call has answered: a thread that is being ended may still
 *     run JavaScript whose native calls do nothing.
 * Slot-3  every role passes slots in sequence order.
 * Slot-4  a thread that changes something another thread may wait for rings that thread's bell
 *     afterwards.
 * Slot-5  Free means the device is done with the slot too: `spent` was seen before the store.
 * Slot-6  stopping wakes and releases every waiter, whatever it waits for.
 * Slot-7  a failure lives in the ring's header. The first one wins and every waiter throws it.
 * Slot-8  an actor can die between any two stores and a new one carries on: it finds its place by
 *     looking at the words, and packing, submitting and polling repeat safely. The learner's graph
 *     ends by writing its sequence to the slot's mark, and a new replay actor launches only what
 *     the mark has not seen.
 * Slot-9  a thread that stops something stores it (stop, pause, failure note) before it rings, and
 *     returns stopped. The requester stores a request, then reads those words, and takes the
 *     request back when one is set. So a tick that had no slot at the stop's store is never
 *     applied. All sequentially consistent accesses have one order, in which a request that stays
 *     came before that store.
 * Slot-10  a role has one host. The client stores which table of hosts holds, and rings all. A
 *     thread lets go of the roles that this table gives to others, then stores that it has seen the
 *     table. It takes up a role when every thread has seen the table, and looks for its place as in
 *     Slot-8.
 */

/** The slot's owner now, in the order of its life. */
export const SlotState = {
  /** requester: no tick has it, and the device is done with it */
  Free: 0,
  /** pack: the record says what is asked */
  Requested: 1,
  /** submit: the rows are in the host buffer */
  Packed: 2,
  /** poll: copy and `copied` event are enqueued */
  Submitted: 3,
  /**
   * replay, or the caller of sampleLargeBatch: the rows are on the device, or before replay's
   * update in its order
   */
  Ready: 4,
  /** poll: the work is launched and `spent` recorded after it */
  Replaying: 5,
} as const;
export type SlotState = (typeof SlotState)[keyof typeof SlotState];

/** The roles, in the order of a slot's life. The requester always lives on pack's thread. */
export const roles = ['pack', 'submit', 'poll', 'replay'] as const;
export type Role = (typeof roles)[number];
/** The state in which a slot waits for a role. */
export const serves = {
  pack: SlotState.Requested,
  submit: SlotState.Packed,
  poll: SlotState.Submitted,
  replay: SlotState.Ready,
} as const satisfies Record<Role, SlotState>;

/** The state word is sequence × 8 + state in an Int32, wrapping. */
const SEQUENCE_BITS = 29;
export const SEQUENCE_MASK = 2 ** SEQUENCE_BITS - 1;

export function packWord(sequence: number, state: SlotState): number {
  return ((sequence & SEQUENCE_MASK) << 3) | state;
}
export function stateOf(word: number): SlotState {
  return (word & 7) as SlotState;
}
export function sequenceOf(word: number): number {
  return word >>> 3;
}
/** a − b of two wrapped sequences, as a small signed number. */
export function sequenceDistance(a: number, b: number): number {
  return ((a - b) << (32 - SEQUENCE_BITS)) >> (32 - SEQUENCE_BITS);
}

/**
 * Float64 fields of a slot's record, written only by the slot's owner (Slot-1). Times are
 * milliseconds of one clock.
 */
export const Field = {
  /**
   * the whole sequence number, exact to 2^53, of which the state word carries the low bits. The
   * word moves on by depth when the slot becomes Free
   */
  sequence: 0,
  tick: 1,
  rows: 2,
  /** low 32 bits of the tick's seed: all that torch's CPU generator looks at */
  seed: 3,
  /** the buffer's ptr that pack waits for, or PACKED: pack has nothing to do */
  minPtr: 4,
  /** 1 when replay is to publish the weights after this tick */
  publish: 5,
  /** what pack found and drew from */
  snapshotPtr: 6,
  snapshotSize: 7,
  /** version that replay began to publish, 0 for none */
  version: 8,
  requestedAt: 9,
  packBegin: 10,
  packEnd: 11,
  submitBegin: 12,
  submitEnd: 13,
  /** poll saw `copied`, or passed the slot on to an update that the device orders after the copy */
  readyAt: 14,
  replayBegin: 15,
  replayEnd: 16,
  /** poll saw `spent` */
  doneAt: 17,
  /**
   * milliseconds on the device by its own events, of the copy and of the update, −1 when they were
   * not measured
   */
  copyMs: 18,
  updateMs: 19,
  /** exponent of the importance weights, by priorities */
  beta: 20,
  /** rows that writers overtook, and that were drawn again */
  drawnAgain: 21,
  /** of the priorities taken up before the draw, those of steps that were overwritten meanwhile */
  stale: 22,
  /** the largest priority that was ever given, at the draw, 0 for uniform draws */
  maxPriority: 23,
  /** bytes that went to the device */
  moved: 24,
} as const;
export const RECORD_FIELDS = 25;
/** In place of minPtr: params and rows lie in the host buffer already, from an earlier run. */
export const PACKED = -1;

/**
 * Per-tick parameters: the first PARAMS_BYTES of a slot's device buffer, float64 each. Pack writes
 * them next to the rows.
 */
export const Param = {
  tick: 0,
  sequence: 1,
  rows: 2,
  snapshotPtr: 3,
  snapshotSize: 4,
  seed: 5,
  low: 6,
} as const;
export const PARAMS_BYTES = 256;
/**
 * Byte offset of the head in the parameters, and its words (int32). The head says what a tick draws
 * of rows on the device. The first word of a view's head says how many steps travel with the tick.
 */
export const HEAD_AT = 192;
export const HEAD_WORDS = 8;

/**
 * Bytes that the graph copies back: the mark (float64: sequence + 1), then up to MAX_SCALARS
 * float32.
 */
export const OUT_BYTES = 256;
export const OUT_SCALARS = 64;
export const MAX_SCALARS = (OUT_BYTES - OUT_SCALARS) / 4;

/**
 * Offset of the rows in a slot's host buffer, which is params │ rows │ out │ priorities. Params and
 * rows move to the device in one copy. Out and priorities are read back.
 */
export const ROWS_AT = PARAMS_BYTES;
