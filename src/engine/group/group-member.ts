/** A rank as a member of its learner group: whether it is in it still, what the group failed of, and who left before it sent its part. */
import { ThreadEnding } from '../../base/addon.ts';
import { type CodedError, type ErrorCode, stateError, unavailableError } from '../../base/errors.ts';
import { type ExchangeWords, RankState } from '../../shm/exchange-words.ts';
import { Deadline, LONGEST_PARK_MS } from '../../shm/wait.ts';

export abstract class GroupMember {
  readonly words: ExchangeWords;
  readonly rank: number;
  readonly ranks: number;
  #reasonUntil: Deadline | null = null;

  constructor(words: ExchangeWords, rank: number) {
    this.words = words;
    this.rank = rank;
    this.ranks = words.ranks;
  }

  /** of the latest exchange that was begun */
  abstract get exchange(): number;

  /** This rank cannot go on; everybody learns why. */
  fail(error: unknown): void {
    this.words.fail({ rank: this.rank, exchange: this.exchange, error });
    this.words.leave(this.rank, RankState.failed);
  }

  /** What `fn` throws is the end of the group for every rank. */
  failing<T>(fn: () => T): T {
    try {
      return fn();
    } catch (error) {
      // A thread that is being terminated is lost, which is found out without it.
      if (!(error instanceof ThreadEnding)) this.fail(error);
      throw error;
    }
  }

  /** This rank has left the group. */
  get hasLeft(): boolean {
    return this.words.state(this.rank) === RankState.closed;
  }
  /** Throws when the group has failed, or this rank has left it. */
  check(): void {
    if (this.words.failed) throw this.failure();
    if (this.words.state(this.rank) !== RankState.open)
      throw stateError('CLOSED', `rank ${this.rank} has left the learner group`);
  }

  /** Throws too when another rank has left. */
  checkWhole(): void {
    this.check();
    for (let rank = 0; rank < this.ranks; rank++)
      if (this.words.state(rank) > RankState.open)
        throw stateError('CLOSED', `rank ${rank} has left the learner group: close every rank, and join a new group`);
  }

  failure(): CodedError {
    const { rank, exchange, error } = this.words.failure as NonNullable<ExchangeWords['failure']>;
    const { code } = error as { code?: unknown };
    const who =
      rank < 0
        ? 'the learner group was ended from outside'
        : `rank ${rank} of the learner group failed ${exchange === 0 ? 'before its first exchange' : `in exchange ${exchange}`}`;
    const ours = typeof code === 'string' && code.startsWith('ERR_HOTSLOT_');
    return unavailableError(`${who}: ${error.message}`, ours ? (code as ErrorCode) : 'ERR_HOTSLOT_STATE_CLOSED', error);
  }

  /** H6: another thread is just writing down why a rank has failed. */
  mayExplain(state: RankState): boolean {
    if (state !== RankState.failed || this.words.failed) return false;
    this.#reasonUntil ??= new Deadline(LONGEST_PARK_MS);
    return this.#reasonUntil.left > 0;
  }

  missed(rank: number, state: RankState): Error {
    if (this.words.failed) return this.failure();
    const what = `what exchange ${this.exchange} of rank ${this.rank} waits for`;
    const next = 'close every rank, and join a new group from a checkpoint or from what rank 0 has';
    if (state !== RankState.lost)
      return stateError('CLOSED', `rank ${rank} of the learner group left before it told ${what}: ${next}`);
    return unavailableError(
      `the thread of rank ${rank} of the learner group ended before it told ${what}: ${next}`,
      'ERR_HOTSLOT_THREAD_LOST',
    );
  }
}
