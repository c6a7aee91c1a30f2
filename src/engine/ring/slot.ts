/**
 * A slot's life: its states, its record, and the rules that every role keeps. Only this file
 * defines the layout of a slot's bytes, and only `Ring` writes the state word.
 *
 * Slot-1  the state determines the owner. No other role writes to the slot: its record, its host
 *     buffer and its device buffer.
 * Slot-2  one store of the state word hands the slot over, after every write that it publishes. If
 *     native code makes such a write, the slot is handed over only after the native call has
 *     returned an answer. In a thread that is being ended, JavaScript may still run, but native
 *     calls do nothing and return no answer.
 * Slot-3  every role serves slots in sequence order.
 * Slot-4  a thread that changes something rings the bell of the thread that may wait for it, after
 *     the change.
 * Slot-5  Free means that the device too is done with the slot: poll saw `spent` before it stored
 *     Free.
 * Slot-6  a stop wakes and releases every waiter, regardless of what it waits for.
 * Slot-7  a failure is stored in the ring. The first failure wins, and every waiter throws it.
 * Slot-8  an actor can die between any two stores, and a new one continues. The new actor finds its
 *     slot from the state words. Packing, submitting and polling can safely be repeated. The
 *     learner's graph ends by writing its sequence to the slot's mark. A new replay actor launches
 *     only updates whose sequence is not in the mark.
 * Slot-9  a thread that stops work stores the stop word, a pause bit or the failure note, and then
 *     rings. The stop is in force when its call returns. The requester stores a request, then reads
 *     those words, and takes the request back if one is set. All these accesses are sequentially
 *     consistent, so they have one order. In this order, a request that stays precedes the store of
 *     the stop. So a tick that had no slot at that store is never applied.
 * Slot-10  a role has one host. The client stores which table of hosts applies, and rings all
 *     threads. A thread releases the roles that this table assigns to others, then stores that it
 *     has seen the table. It hosts a new role only after every thread has seen the table, and finds
 *     its slot as in Slot-8.
 */

/** The state of a slot, in the order of its life. Each comment names the state's owner. */
export const SlotState = {
  /** requester: no tick uses the slot, and the device is done with it */
  Free: 0,
  /** pack: the record contains the request */
  Requested: 1,
  /** submit: the rows are in the host buffer */
  Packed: 2,
  /** poll: copy and `copied` event are enqueued */
  Submitted: 3,
  /**
   * replay, or the caller of sampleLargeBatch(): the rows are on the device, or the device orders
   * replay's update after their copy
   */
  Ready: 4,
  /** poll: the update is launched and `spent` is recorded after it */
  Replaying: 5,
} as const;
export type SlotState = (typeof SlotState)[keyof typeof SlotState];

/** The roles, in the order of a slot's life. The requester always runs on pack's thread. */
export const roles = ['pack', 'submit', 'poll', 'replay'] as const;
export type Role = (typeof roles)[number];
/** The state in which a slot waits for each role. */
export const serves = {
  pack: SlotState.Requested,
  submit: SlotState.Packed,
  poll: SlotState.Submitted,
  replay: SlotState.Ready,
} as const satisfies Record<Role, SlotState>;

/**
 * Bits of a sequence in the state word, an Int32 of value sequence × 8 + state. The sequence wraps.
 */
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
/** Returns a − b of two wrapped sequences, as a small signed number. */
export function sequenceDistance(a: number, b: number): number {
  return ((a - b) << (32 - SEQUENCE_BITS)) >> (32 - SEQUENCE_BITS);
}

/**
 * Float64 fields of a slot's record, which only the slot's owner writes (Slot-1). Times are
 * milliseconds of the same clock.
 */
export const Field = {
  /**
   * the whole sequence number, exact to 2^53. The state word contains its low bits, which increase
   * by depth when the slot becomes Free
   */
  sequence: 0,
  tick: 1,
  rows: 2,
  /** low 32 bits of the tick's seed, because torch's CPU generator uses only those */
  seed: 3,
  /** the buffer's ptr that pack waits for, or PACKED if the batch is packed already */
  minPtr: 4,
  /** 1 if replay must publish the weights after this tick, else 0 */
  publish: 5,
  /** the buffer's ptr at the draw, and the number of rows that pack drew from */
  snapshotPtr: 6,
  snapshotSize: 7,
  /** weight version that replay began to publish, 0 for none */
  version: 8,
  requestedAt: 9,
  packBegin: 10,
  packEnd: 11,
  submitBegin: 12,
  submitEnd: 13,
  /**
   * time when poll saw `copied`, or when it handed the slot to an update that the device orders
   * after the copy
   */
  readyAt: 14,
  replayBegin: 15,
  replayEnd: 16,
  /** time when poll saw `spent` */
  doneAt: 17,
  /**
   * milliseconds of the copy and of the update on the device, from its timing events, −1 if not
   * measured
   */
  copyMs: 18,
  updateMs: 19,
  /** exponent of the importance weights, if draws are by priorities */
  beta: 20,
  /** number of rows that were drawn again because writers had overwritten them */
  drawnAgain: 21,
  /**
   * number of priorities, of those that pack read before the draw, whose steps were already
   * overwritten
   */
  stale: 22,
  /** the largest priority ever written before the draw, 0 for uniform draws */
  maxPriority: 23,
  /** number of bytes that were copied to the device */
  moved: 24,
} as const;
export const RECORD_FIELDS = 25;
/**
 * Value of `minPtr` for a batch that an earlier run packed: its parameters and rows are already in
 * the host buffer.
 */
export const PACKED = -1;

/**
 * Parameters of a tick, float64 each: the first PARAMS_BYTES of a slot's device buffer. Pack writes
 * them together with the rows.
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
 * Byte offset of the head in the parameters, and its int32 words. If rows live on the device, the
 * device draws the tick's rows from the head. For a view, the head's first word is the number of
 * steps that travel with the tick.
 */
export const HEAD_AT = 192;
export const HEAD_WORDS = 8;

/**
 * Layout of the bytes that the graph copies back: the mark (float64: sequence + 1), then up to
 * MAX_SCALARS float32.
 */
export const OUT_BYTES = 256;
export const OUT_SCALARS = 64;
export const MAX_SCALARS = (OUT_BYTES - OUT_SCALARS) / 4;

/**
 * Offset of the rows in a slot's host buffer, which is params │ rows │ out │ priorities. Params and
 * rows move to the device in one copy. Out and priorities are copied back.
 */
export const ROWS_AT = PARAMS_BYTES;
