/** The MPI of one of several processes that a launcher started, opened at run time. */
import { checkKeys, describeValue } from '../../base/checks.ts';
import { Closing } from '../../base/closing.ts';
import {
  closedError,
  rangeError,
  stateError,
  typeError,
  unavailableError,
} from '../../base/errors.ts';
import { checkAgreed, recordOf } from '../../engine/group/agreement.ts';
import type { SharedLearnerGroup } from '../../engine/group/group-shared.ts';
import { BELL_WORDS, Bell } from '../../shm/bell.ts';
import { checkElsewhere } from '../../shm/exchange-control.ts';
import { allocateShared } from '../../shm/memory.ts';
import type { HaloExchangeOptions, SharedHaloExchange } from '../halo/shared-exchange.ts';
import { type ExchangeElsewhere, groupElsewhere, haloElsewhere, MAX_BYTES } from './exchange.ts';
import { type Launcher, launcherOf } from './launcher.ts';
import { Notice, newRanks, type Ranks } from './native.ts';

export interface OpenMpiOptions {
  /**
   * the library, if it is another than the launcher's usual one (default: HOTSLOT_MPI in the
   * environment)
   */
  library?: string;
}

/**
 * Opens the MPI library of this process's launcher in a separate thread, once per process. Resolves
 * when all processes have called it.
 *
 * @param options `library`: a file to open instead of the launcher's
 * @throws {ERR_HOTSLOT_UNAVAILABLE} without a launcher, without a library, or if the library is not
 *   the launcher's
 * @throws {ERR_HOTSLOT_STATE_BUSY} for a second call
 * @example
 * const mpi = await openMpi();
 * console.log(mpi.rank, mpi.size);
 * await mpi.close();
 */
export async function openMpi(options: OpenMpiOptions = {}): Promise<MpiProcess> {
  checkKeys('openMpi', options, ['library']);
  const launcher = launcherOf(process.env, options.library);
  const inside = new Inside(launcher);
  const { rank, size, name } = await inside.opened;
  // A library that finds no launcher of its kind reports one process.
  if (size !== launcher.size) {
    const text = `${launcher.name} started ${launcher.size} processes, but ${name} counts ${size}`;
    await inside.close();
    throw unavailableError(
      `${text}: it is another MPI's library; name the launcher's own by HOTSLOT_MPI`,
    );
  }
  return new Opened(inside, { rank, size, name });
}

interface Facts {
  readonly rank: number;
  readonly size: number;
  readonly name: string;
}

/**
 * The result of openMpi(). Call `close()` at the end, in every process: a launcher treats a process
 * that ends without it as a crash.
 */
export interface MpiProcess extends AsyncDisposable {
  /** rank of this process, from 0 */
  readonly rank: number;
  /** number of processes */
  readonly size: number;
  /**
   * the library's version and the file that was opened, such as 'Open MPI v4.1.4 (libmpi.so.40)'
   */
  readonly name: string;

  /**
   * Creates a halo exchange whose ranks are divided evenly among the processes, in order: with as
   * many ranks as processes, a process's rank is `rank`. Every process calls it with the same
   * options, in the same order as the other collective calls. Differing options fail the exchange
   * in every process. Use the result as that of shareHaloExchange(): HaloUpdater(exchange, rank),
   * also in other threads of this process. Throws as shareHaloExchange() does, and RangeError for
   * ranks that cannot be divided evenly.
   */
  shareHaloExchange(options: HaloExchangeOptions): SharedHaloExchange;

  /**
   * Creates a learner group with a rank per process, for LearnerGroup.join(), which calls this.
   * Every process calls it with the same number of parameters. Differing numbers fail the group in
   * every process.
   */
  shareLearnerGroup(options: { parameters: number }): SharedLearnerGroup;

  /**
   * Resolves with the numbers of every process, in the order of ranks. Every process calls it with
   * equally many, in the same order as the other collective calls. Rejects with a TypeError if they
   * do not, and with a RangeError for more than 2 GiB.
   */
  allGather(values: Float64Array): Promise<Float64Array[]>;

  /**
   * Sends all pending data, waits until every process has called close(), and ends MPI, which
   * cannot be opened again in this process. Rejects with ERR_HOTSLOT_STATE_BUSY, without any
   * effect, while a rank of this process is in an exchange.
   */
  close(): Promise<void>;
}

/** MpiProcess documents its methods. */
class Opened implements MpiProcess {
  readonly rank: number;
  readonly size: number;
  readonly name: string;
  readonly #inside: Inside;

  constructor(inside: Inside, { rank, size, name }: Facts) {
    this.rank = rank;
    this.size = size;
    this.name = name;
    this.#inside = inside;
  }

  shareHaloExchange(options: HaloExchangeOptions): SharedHaloExchange {
    return this.#inside.share((bell) => haloElsewhere(options, this.rank, this.size, bell));
  }

  shareLearnerGroup(options: { parameters: number }): SharedLearnerGroup {
    checkKeys('shareLearnerGroup', options, ['parameters']);
    return this.#inside.share((bell) =>
      groupElsewhere(options.parameters, this.rank, this.size, bell),
    );
  }

  async allGather(values: Float64Array): Promise<Float64Array[]> {
    if (!(values instanceof Float64Array))
      throw typeError(`allGather takes a Float64Array, got ${describeValue(values)}`);
    if (values.byteLength > MAX_BYTES)
      throw rangeError(
        `allGather takes ${MAX_BYTES} bytes of each process at most, got ${values.byteLength}`,
      );
    // A copy of the present values: earlier collective calls may have to end first.
    const all = await this.#inside.gather(new Uint8Array(values.slice().buffer));
    const numbers = new Float64Array(Uint8Array.from(all).buffer);
    return Array.from({ length: this.size }, (_, rank) =>
      numbers.subarray(rank * values.length, (rank + 1) * values.length),
    );
  }

  close(): Promise<void> {
    return this.#inside.close();
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

interface Waiting {
  resolve(bytes: Uint8Array): void;
  reject(error: Error): void;
}

/** Sends requests to the MPI thread and receives its answers. */
class Inside {
  readonly opened: Promise<Facts>;
  readonly #native: Ranks;
  readonly #bell: Int32Array;
  readonly #exchanges = new Map<number, ExchangeElsewhere>();
  readonly #waiting = new Map<number, Waiting>();
  #token = 0;
  /** tail of the collective calls, which begin one after the other */
  #together: Promise<unknown> = Promise.resolve();
  #failed: Error | null = null;
  readonly #closing = new Closing();

  constructor({ libraries }: Launcher) {
    const { memory, offset } = allocateShared("MPI's bell", 4 * BELL_WORDS, 64);
    this.#bell = new Int32Array(memory, offset, BELL_WORDS);
    const opening = {} as { resolve(facts: Facts): void; reject(error: Error): void };
    this.opened = new Promise((resolve, reject) => Object.assign(opening, { resolve, reject }));
    checkElsewhere();
    this.#native = newRanks(libraries, new Bell(this.#bell).words, (kind, job, a, b, c, bytes) => {
      if (kind === Notice.opened) {
        this.#native.hold(false);
        opening.resolve({ rank: a, size: b, name: nameOf(bytes) });
      } else if (kind === Notice.failed) {
        opening.reject(this.#fail(new TextDecoder().decode(bytes)));
      } else if (kind === Notice.agreed || kind === Notice.drained || kind === Notice.closed)
        this.#answer(job, bytes);
      else this.#hear(kind, job, a, b, c, bytes);
    });
  }

  share<T>(layOut: (bell: Int32Array) => { shared: T; exchange: ExchangeElsewhere }): T {
    if (this.#closing.begun) throw closedError('this MpiProcess');
    if (this.#failed) throw this.#failed;
    const { shared, exchange } = layOut(this.#bell);
    const job = ++this.#token;
    this.#exchanges.set(job, exchange);
    this.#inTurn(async () => {
      await this.#agree(exchange.what, exchange.facts);
      this.#native.halo(job, exchange.job());
      exchange.begin(this.#native, job);
    }).catch((error: Error) => exchange.fail(error));
    return shared;
  }

  gather(bytes: Uint8Array): Promise<Uint8Array> {
    if (this.#closing.begun) return Promise.reject(closedError('this MpiProcess'));
    return this.#inTurn(async () => {
      await this.#agree('a gathering', bytes.length);
      return this.#request((token) => this.#native.agree(token, bytes));
    });
  }

  close(): Promise<void> {
    const used = [...this.#exchanges.values()].find((exchange) => exchange.open.length > 0);
    if (!this.#closing.begun && this.#failed === null && used)
      return Promise.reject(
        stateError(
          'BUSY',
          `rank ${used.open.join(', ')} is still in ${used.what}: close its ${used.user} first`,
        ),
      );
    return this.#closing.once(() =>
      this.#inTurn(async () => {
        if (this.#failed) return;
        await this.#request((token) => this.#native.drain(token));
        await this.#agree('the end', null);
        await this.#request((token) => this.#native.close(token));
      }).catch((error: unknown) => {
        // The other processes made another call, so close() can be tried again.
        this.#closing.retry();
        throw error;
      }),
    );
  }

  async #agree(what: string, facts: unknown): Promise<void> {
    checkAgreed(await this.#request((token) => this.#native.agree(token, recordOf(what, facts))));
  }

  /**
   * Runs `does` after the collective calls that were begun before. The process stays alive until it
   * is over.
   */
  #inTurn<T>(does: () => Promise<T>): Promise<T> {
    const done = this.#together.then(does, does);
    this.#together = done;
    return done;
  }

  #request(ask: (token: number) => void): Promise<Uint8Array> {
    const token = ++this.#token;
    const answer = new Promise<Uint8Array>((resolve, reject) =>
      this.#waiting.set(token, { resolve, reject }),
    );
    if (this.#failed) return Promise.reject(this.#failed);
    this.#native.hold(true);
    ask(token);
    return answer;
  }
  #answer(token: number, bytes: Uint8Array): void {
    this.#waiting.get(token)?.resolve(bytes);
    this.#waiting.delete(token);
    if (this.#waiting.size === 0) this.#native.hold(false);
  }

  #hear(kind: number, job: number, a: number, b: number, c: number, bytes: Uint8Array): void {
    const exchange = this.#exchanges.get(job);
    if (kind === Notice.note) exchange?.postNote(this.#native, job);
    else if (kind === Notice.left) exchange?.postLeft(this.#native, job, a, b, c);
    else if (kind === Notice.mail) exchange?.hear(this.#native, job, bytes);
    else exchange?.wake(a);
  }

  #fail(text: string): Error {
    const error = unavailableError(`MPI failed in this process: ${text}`);
    this.#failed = error;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    for (const exchange of this.#exchanges.values()) exchange.fail(error);
    this.#native.hold(false);
    return error;
  }
}

/** Returns the library's version and the file that was opened. */
function nameOf(bytes: Uint8Array): string {
  const [file, words = ''] = new TextDecoder().decode(bytes).split('\n');
  const [version = ''] = words.split(',');
  return `${version.replace(/\s+/g, ' ').trim()} (${file})`;
}
