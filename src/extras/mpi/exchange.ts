/**
 * Connects an exchange that has ranks in other processes with the MPI thread. It gives the thread
 * the exchange's control words and buffers. It also sends and receives letters, which here are
 * control messages between processes.
 */
import { dtypes } from '../../base/dtype.ts';
import { rangeError } from '../../base/errors.ts';
import {
  groupControlWords,
  LETTER_BYTES,
  layOutGroup,
  routeOf,
  type SharedLearnerGroup,
  strideOf,
  verdictOf,
} from '../../engine/group/group-shared.ts';
import { type Letter, read, written } from '../../engine/group/letters.ts';
import { putQuestions, Questions } from '../../engine/group/questions.ts';
import {
  type ExchangeControlBlock,
  RankState,
  type RanksElsewhere,
} from '../../shm/exchange-control.ts';
import type { Place } from '../../shm/memory.ts';
import {
  type HaloExchangeOptions,
  layOutExchange,
  type SharedHaloExchange,
  wordsOf,
} from '../halo/shared-exchange.ts';
import type { HaloJob, Ranks } from './native.ts';

/**
 * Maximum bytes of a message, because MPI counts the bytes in a 32-bit int. Longer data is rejected
 * with a RangeError.
 */
export const MAX_BYTES = 2 ** 31 - 1;

/** The layout of an exchange between processes. */
interface Laid {
  /** name of the exchange in errors */
  readonly what: string;
  /** name in errors of the class that claims a rank of the exchange */
  readonly user: string;
  readonly ranks: number;
  readonly words: ExchangeControlBlock;
  readonly data: Place;
  readonly elsewhere: RanksElsewhere;
  readonly buffers: readonly Halves[];
  /** options that must be the same in every process */
  readonly facts: unknown;
}
/** A buffer of two halves for the data that one rank sends to another rank. */
interface Halves {
  readonly reader: number;
  readonly sender: number;
  /** offset in bytes of the first half in `data` */
  readonly byteOffset: number;
  /** distance in bytes from the first half to the second half */
  readonly stride: number;
  /** bytes of a half */
  readonly bytes: number;
}

/**
 * Lays out a halo exchange between processes, each of which has an equal number of consecutive
 * ranks. Throws RangeError if the ranks cannot be divided evenly among the processes. Also throws
 * it if an edge has more than `MAX_BYTES` bytes.
 */
export function haloElsewhere(
  options: HaloExchangeOptions,
  here: number,
  processes: number,
  bell: Int32Array,
): { shared: SharedHaloExchange; exchange: ExchangeElsewhere } {
  const shared = layOutExchange(options, (ranks) => {
    const each = ranks / processes;
    if (!Number.isInteger(each))
      throw rangeError(
        `${ranks} ranks cannot be divided evenly among ${processes} processes; start as many processes, or a divisor`,
      );
    return Object.freeze({
      process: Object.freeze(Array.from({ length: ranks }, (_, rank) => Math.floor(rank / each))),
      here,
      bell,
    });
  });
  const { ranks, neighbors, x, y, points, dtype } = shared;
  const buffers = shared.buffers.map(({ rank, edge, length, byteOffset, stride }) => {
    const sender = neighbors[rank]!.find((each) => each.edge === edge)!.rank;
    return { reader: rank, sender, byteOffset, stride, bytes: length * dtypes[dtype].bytes };
  });
  const widest = Math.max(0, ...buffers.map(({ bytes }) => bytes));
  if (widest > MAX_BYTES)
    throw rangeError(
      `between processes ${MAX_BYTES} bytes per edge at most, ${widest} were requested`,
    );
  const { data, elsewhere } = shared;
  const laid = {
    what: 'a halo exchange',
    user: 'HaloUpdater',
    ranks,
    words: wordsOf(shared),
    data,
    elsewhere: elsewhere!,
    buffers,
  };
  return {
    shared,
    exchange: new ExchangeElsewhere({
      ...laid,
      facts: { ranks, neighbours: neighbors, x, y, points },
    }),
  };
}

/** Lays out a learner group with one rank per process. */
export function groupElsewhere(
  parameters: number,
  here: number,
  processes: number,
  bell: Int32Array,
): { shared: SharedLearnerGroup; exchange: ExchangeElsewhere } {
  const process = Object.freeze(Array.from({ length: processes }, (_, rank) => rank));
  const elsewhere = Object.freeze({ process, here, bell });
  const shared = layOutGroup({ ranks: processes, parameters }, elsewhere);
  const stride = strideOf(parameters);
  const buffers = process
    .flatMap((reader) =>
      process.filter((sender) => sender !== reader).map((sender) => ({ reader, sender })),
    )
    .map(({ reader, sender }) => {
      const byteOffset = 2 * stride * routeOf(processes, reader, sender);
      return { reader, sender, byteOffset, stride, bytes: LETTER_BYTES + 4 * parameters };
    });
  const words = groupControlWords(shared);
  const laid = {
    what: 'a learner group',
    user: 'LearnerGroup',
    ranks: processes,
    words,
    data: shared.data,
    elsewhere,
  };
  const exchange = new ExchangeElsewhere({ ...laid, buffers, facts: { parameters } });
  const questions = new Questions({
    here,
    ranks: processes,
    verdict: verdictOf(shared),
    send: (letter) => exchange.send(letter),
    ring: () => words.bell(here).ring(),
    fail: (error) => {
      words.fail({ rank: here, exchange: 0, error });
      words.leave(here, RankState.failed);
    },
  });
  exchange.answers(questions);
  putQuestions(shared, questions);
  return { shared, exchange };
}

export class ExchangeElsewhere {
  readonly what: string;
  readonly user: string;
  readonly facts: unknown;
  readonly #laid: Laid;
  readonly #words: ExchangeControlBlock;
  /** questions of a learner group, null for a halo exchange */
  #questions: Questions | null = null;
  #send: (letter: Letter) => void = () => {};
  /**
   * whether the exchange's first failure came from another process, or was already sent to the
   * other processes
   */
  #noted = false;

  constructor(laid: Laid) {
    this.#laid = laid;
    this.what = laid.what;
    this.user = laid.user;
    this.facts = laid.facts;
    this.#words = laid.words;
    for (let rank = 0; rank < laid.ranks; rank++)
      if (!this.#words.isHere(rank)) this.#words.standIn(rank);
  }

  /** Makes send() pass letters to `native`. Before begin(), send() drops them. */
  begin(native: Ranks, job: number): void {
    this.#send = (letter) => native.send(job, written(letter));
  }
  send(letter: Letter): void {
    this.#send(letter);
  }
  answers(questions: Questions): void {
    this.#questions = questions;
  }

  /** Open ranks of this process. */
  get open(): number[] {
    return Array.from({ length: this.#laid.ranks }, (_, rank) => rank).filter(
      (rank) => this.#words.isHere(rank) && this.#words.state(rank) === RankState.open,
    );
  }

  job(): HaloJob {
    const { buffers, data, elsewhere } = this.#laid;
    const numbers = buffers.flatMap((each) => [
      each.reader,
      each.sender,
      each.byteOffset,
      each.stride,
      each.bytes,
    ]);
    return {
      ...this.#words.views,
      data: new Uint8Array(data.memory, data.offset),
      buffers: Float64Array.from(numbers),
      process: Int32Array.from(elsewhere.process),
      here: elsewhere.here,
    };
  }

  /** Sends the failure to the other processes if the exchange failed in this process first. */
  postNote(native: Ranks, job: number): void {
    const { failure } = this.#words;
    if (this.#noted || failure === null) return;
    this.#noted = true;
    native.send(job, written({ kind: 'note', ...failure }));
  }

  /**
   * Reports to the other processes that a rank of this process has left. If it left by a failure,
   * postNote() has sent the failure before.
   */
  postLeft(native: Ranks, job: number, rank: number, state: number, exchange: number): void {
    native.send(job, written({ kind: 'left', rank, state, exchange }));
  }

  hear(native: Ranks, job: number, bytes: Uint8Array): void {
    const letter = read(bytes);
    if (letter.kind === 'left') {
      native.left(job, letter.rank, letter.state, letter.exchange);
      return;
    }
    if (letter.kind !== 'note') {
      this.#questions?.hear(letter);
      return;
    }
    this.#noted = true;
    this.#words.fail(letter);
    this.#words.ringAll();
  }

  wake(rank: number): void {
    this.#words.bell(rank).ring();
  }

  /** Fails every rank of this process, after MPI failed or the processes did not agree. */
  fail(error: Error): void {
    this.#words.fail({ rank: -1, exchange: 0, error });
    this.#words.ringAll();
  }
}
