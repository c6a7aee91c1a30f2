/**
 * The shared memory of a learner group's ranks: control words, and two buffers (halves) for vectors
 * from every rank to every other. Exchanges use the two halves in turn. The words and their rules
 * are those of a halo exchange (src/shm/exchange-control.ts), in which all ranks are neighbors.
 */
import { randomUUID } from 'node:crypto';
import { checkCount, checkKeys } from '../../base/checks.ts';
import { rangeError } from '../../base/errors.ts';
import {
  ExchangeControlBlock,
  exchangeControlBytes,
  type RanksElsewhere,
} from '../../shm/exchange-control.ts';
import { Int64 } from '../../shm/int64.ts';
import {
  allocateShared,
  checkShared,
  LINE,
  PAGE,
  type Place,
  roundUp,
  STRIDE,
} from '../../shm/memory.ts';
import { VERDICT_WORDS, Verdict } from './verdict.ts';

const KIND = 'hotslot.LearnerGroup';
/** Bytes of the letter before a vector: one cache line of float64, see letter.ts. */
export const LETTER_BYTES = 64;
/**
 * Maximum number of float32 values of a vector. A message between processes contains one vector,
 * and MPI counts its bytes by an int.
 */
export const MAX_PARAMETERS = (2 ** 31 - 1 - LETTER_BYTES - 3) / 4;

export interface LearnerGroupOptions {
  /** number of learners, 1 to 256 (`mpi.shareLearnerGroup()` takes one per process) */
  ranks: number;
  /** number of float32 values of all averaged tensors together */
  parameters: number;
}

/** Plain data that postMessage() can transfer unchanged. */
export interface SharedLearnerGroup {
  readonly kind: typeof KIND;
  /** id that distinguishes groups, even after postMessage() */
  readonly id: string;
  readonly ranks: number;
  readonly parameters: number;
  readonly words: Place;
  readonly data: Place;
  /** null if all ranks are in this process */
  readonly elsewhere: RanksElsewhere | null;
}

/**
 * Creates a group of learners in threads of this process, for LearnerGroup.join({ shared, rank }).
 *
 * @param options `ranks`, and `parameters`: float32 values of all averaged tensors together
 * @throws {RangeError} for counts out of range
 * @throws {ERR_HOTSLOT_MEMORY} if 8 × ranks² × parameters bytes are not available
 */
export function shareLearnerGroup(options: LearnerGroupOptions): SharedLearnerGroup {
  checkKeys('shareLearnerGroup', options, ['ranks', 'parameters']);
  return layOutGroup(options, null);
}

/**
 * Allocates a group. `before` is the number of exchanges that count as over, which tests set near
 * the wrap of a half's word.
 */
export function layOutGroup(
  { ranks, parameters }: LearnerGroupOptions,
  elsewhere: RanksElsewhere | null,
  before = 0,
): SharedLearnerGroup {
  checkCount('ranks', ranks, 1, 256);
  checkCount('parameters', parameters, 1);
  if (parameters > MAX_PARAMETERS)
    throw rangeError(`a group averages ${MAX_PARAMETERS} parameters at most, got ${parameters}`);
  const routes = ranks * (ranks - 1);
  // After the exchange's words: a cache line for the verdict, and one per rank for its counts.
  const words = exchangeControlBytes(ranks, routes) + (1 + ranks) * LINE * 4;
  const shared = Object.freeze({
    kind: KIND as typeof KIND,
    id: randomUUID(),
    ranks,
    parameters,
    words: Object.freeze(allocateShared(`a learner group's words`, words, 64)),
    data: Object.freeze(
      allocateShared(
        `a learner group of ${ranks}`,
        Math.max(1, routes) * 2 * strideOf(parameters),
        PAGE,
      ),
    ),
    elsewhere,
  });
  for (let rank = 0; rank < ranks; rank++) {
    const { begun, over } = countsOf(shared, rank);
    for (const each of [begun, over]) each.store(before);
  }
  return shared;
}

/** Returns the bytes from one half to the next. */
export function strideOf(parameters: number): number {
  return roundUp(LETTER_BYTES + 4 * parameters, STRIDE);
}

/** Returns the index of the route from `sender` to `reader`. */
export function routeOf(ranks: number, reader: number, sender: number): number {
  return reader * (ranks - 1) + (sender < reader ? sender : sender - 1);
}

export function checkGroup(what: string, shared: SharedLearnerGroup): void {
  for (const place of [shared?.data, shared?.words])
    checkShared(KIND, shared, place?.memory, `${what} takes the result of shareLearnerGroup()`);
}

export function groupControlWords({
  words,
  ranks,
  elsewhere,
}: SharedLearnerGroup): ExchangeControlBlock {
  return new ExchangeControlBlock(words, ranks, ranks * (ranks - 1), elsewhere);
}

/** Counts of one rank, each an int64. */
export interface Counts {
  /** the latest exchange that the rank began, counted from 1 and below 2^41 (verdict.ts) */
  readonly begun: Int64;
  /** the latest exchange whose outcome the rank has stored */
  readonly over: Int64;
  /** 1 if the rank left the exchange under way without an outcome (Group-5) */
  readonly left: Int64;
  /** 1 while the rank's pipeline is in a run */
  readonly runs: Int64;
}
export function countsOf(shared: SharedLearnerGroup, rank: number): Counts {
  const words = new BigInt64Array(
    shared.words.memory,
    verdictAt(shared) + (1 + rank) * LINE * 4,
    4,
  );
  const [begun, over, left, runs] = Array.from(words, (_, i) => new Int64(words, i)) as [
    Int64,
    Int64,
    Int64,
    Int64,
  ];
  return { begun, over, left, runs };
}
export function verdictOf(shared: SharedLearnerGroup): Verdict {
  return new Verdict(new BigInt64Array(shared.words.memory, verdictAt(shared), VERDICT_WORDS));
}
function verdictAt({ words, ranks }: SharedLearnerGroup): number {
  return words.offset + exchangeControlBytes(ranks, ranks * (ranks - 1));
}
