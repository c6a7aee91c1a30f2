/** A halo exchange some of whose ranks are in other processes: its words and bytes as the MPI thread is given them, and its letters. */
import { dtypes } from '../dtype.ts';
import { rangeError } from '../errors.ts';
import { type ExchangeWords, RankState } from '../halo/exchange-words.ts';
import { type HaloExchangeOptions, layOutExchange, type SharedHaloExchange, wordsOf } from '../halo/shared-exchange.ts';
import { read, written } from './letters.ts';
import type { HaloJob, Ranks } from './native.ts';

/** MPI counts a message's bytes by an int. */
export const MOST_BYTES = 2 ** 31 - 1;

export class ExchangeElsewhere {
  readonly shared: SharedHaloExchange;
  readonly #words: ExchangeWords;
  /** the first failure came from another process, or was sent there */
  #noted = false;

  /** Ranks are shared out evenly, in order. Throws RangeError where they cannot be. */
  constructor(options: HaloExchangeOptions, here: number, processes: number, bell: Int32Array) {
    this.shared = layOutExchange(options, (ranks) => {
      const each = ranks / processes;
      if (!Number.isInteger(each))
        throw rangeError(
          `${ranks} ranks cannot be shared out evenly among ${processes} processes: start as many, or a divisor of it`,
        );
      return Object.freeze({
        process: Object.freeze(Array.from({ length: ranks }, (_, rank) => Math.floor(rank / each))),
        here,
        bell,
      });
    });
    const { buffers, dtype } = this.shared;
    const widest = Math.max(0, ...buffers.map(({ length }) => length * dtypes[dtype].bytes));
    if (widest > MOST_BYTES)
      throw rangeError(`between processes ${MOST_BYTES} bytes go over an edge at most, ${widest} were asked for`);
    this.#words = wordsOf(this.shared);
    for (let rank = 0; rank < this.shared.ranks; rank++) if (!this.#words.isHere(rank)) this.#words.standIn(rank);
  }

  /** What has to be the same in every process. */
  get facts(): unknown {
    const { ranks, neighbours, x, y, points } = this.shared;
    return { ranks, neighbours, x, y, points };
  }

  /** Ranks of this process that are open. */
  get open(): number[] {
    const { ranks } = this.shared;
    return Array.from({ length: ranks }, (_, rank) => rank).filter(
      (rank) => this.#words.isHere(rank) && this.#words.state(rank) === RankState.open,
    );
  }

  job(): HaloJob {
    const { buffers, data, dtype, elsewhere, neighbours } = this.shared;
    const { bytes } = dtypes[dtype];
    const numbers = buffers.flatMap(({ rank, edge, length, byteOffset, stride }) => {
      const sender = neighbours[rank]!.find((each) => each.edge === edge)!.rank;
      return [rank, sender, byteOffset, stride, length * bytes];
    });
    return {
      ...this.#words.views,
      data: new Uint8Array(data.memory, data.offset),
      buffers: Float64Array.from(numbers),
      process: Int32Array.from(elsewhere!.process),
      here: elsewhere!.here,
    };
  }

  /** It has failed here first: the others learn why. */
  tellNote(native: Ranks, job: number): void {
    const { failure } = this.#words;
    if (this.#noted || failure === null) return;
    this.#noted = true;
    native.send(job, written({ kind: 'note', ...failure }));
  }

  /** A rank here has left; one that failed has said why before. */
  tellLeft(native: Ranks, job: number, rank: number, state: number, exchange: number): void {
    native.send(job, written({ kind: 'left', rank, state, exchange }));
  }

  hear(native: Ranks, job: number, bytes: Uint8Array): void {
    const letter = read(bytes);
    if (letter.kind === 'left') {
      native.left(job, letter.rank, letter.state, letter.exchange);
      return;
    }
    this.#noted = true;
    this.#words.fail(letter);
    this.#words.ringAll();
  }

  wake(rank: number): void {
    this.#words.bell(rank).ring();
  }

  /** The end for every rank here: MPI failed, or processes did not agree. */
  fail(error: Error): void {
    this.#words.fail({ rank: -1, exchange: 0, error });
    this.#words.ringAll();
  }
}
