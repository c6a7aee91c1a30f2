/** Opens MPI at run time, in a process that a launcher started as one of several. */
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
   * file of the MPI library (default: the environment variable HOTSLOT_MPI, else the launcher's
   * usual library)
   */
  library?: string;
}

/**
 * Opens the MPI library of this process's launcher in a separate thread. Call it once per process.
 * Resolves after all processes have called it.
 * @param options `library`: a file to open instead of the launcher's
 * @throws {ERR_HOTSLOT_UNAVAILABLE} if no launcher started this process, if no library is found, or
 *   if the library is not the launcher's
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
  // A library that does not belong to the launcher reports one process.
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
 * The result of openMpi(). Call close() at the end in every process. If a process ends without
 * close(), the launcher treats that as a crash.
 */
export interface MpiProcess extends AsyncDisposable {
  /** rank of this process, from 0 */
  readonly rank: number;
  /** number of processes */
  readonly size: number;
  /** version and file of the library, such as 'Open MPI v4.1.4 (libmpi.so.40)' */
  readonly name: string;

  /**
   * Creates a halo exchange whose ranks are divided evenly among the processes, in order. With one
   * rank per process, the process's rank in the exchange is `rank`. Use the result like that of the
   * function shareHaloExchange(): create a HaloUpdater for each rank of this process, in any
   * thread.
   *
   * Every process must call this with the same options, and make all collective calls in the same
   * order. If options differ, the exchange fails in every process. Throws like the function
   * shareHaloExchange(). Also throws RangeError if the ranks cannot be divided evenly.
   */
  shareHaloExchange(options: HaloExchangeOptions): SharedHaloExchange;

  /**
   * Creates a learner group with one rank per process. LearnerGroup.join() calls this. Every
   * process must call it with the same number of parameters. If the numbers differ, the group fails
   * in every process.
   */
  shareLearnerGroup(options: { parameters: number }): SharedLearnerGroup;

  /**
   * Resolves with the values of every process, in the order of ranks. Every process must pass the
   * same number of values, and make all collective calls in the same order. Rejects with a
   * TypeError if the calls differ. Rejects with a RangeError if the values have 2 GiB or more.
   */
  allGather(values: Float64Array): Promise<Float64Array[]>;

  /**
   * Sends all pending data, waits until every process has called close(), then ends MPI. This
   * process cannot open MPI again. Rejects with ERR_HOTSLOT_STATE_BUSY, without any effect, if a
   * rank of this process is still in an exchange.
   */
  close(): Promise<void>;
}

/** Implements MpiProcess, which documents the methods. */
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
    // Copies the values, because this call is sent only after earlier collective calls have ended.
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
  /**
   * promise of the last collective call. The next collective call begins after this promise is
   * settled
   */
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
        // The error means that the other processes made a different call. close() may be called
        // again.
        this.#closing.retry();
        throw error;
      }),
    );
  }

  async #agree(what: string, facts: unknown): Promise<void> {
    checkAgreed(await this.#request((token) => this.#native.agree(token, recordOf(what, facts))));
  }

  /** Runs `does` after all earlier collective calls have ended, and returns its result. */
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

/** Returns the library's version and file as text. */
function nameOf(bytes: Uint8Array): string {
  const [file, words = ''] = new TextDecoder().decode(bytes).split('\n');
  const [version = ''] = words.split(',');
  return `${version.replace(/\s+/g, ' ').trim()} (${file})`;
}
