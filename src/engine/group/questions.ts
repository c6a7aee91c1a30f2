/**
 * Decides between processes whether an exchange is ended. Within a process one shared word decides
 * (verdict.ts), but processes share no memory. So a rank that ends its wait asks every other
 * process whether that process has taken the exchange.
 *
 * A process that has not taken the exchange answers no. It then does not take the exchange before
 * it hears what all processes answered (Verdict.ask). So if one process had taken the exchange, all
 * take it. Otherwise all end it. This is true for any number of ranks that ask at once, since a
 * process gives all of them the same answer.
 */
import { stateError } from '../../base/errors.ts';
import type { Ending } from '../../shm/ending.ts';
import type { SharedLearnerGroup } from './group-shared.ts';
import type { Verdict } from './verdict.ts';

export interface Question {
  readonly exchange: number;
  /** the rank that ends its wait, and its reason */
  readonly rank: number;
  readonly why: Ending;
}
export type QuestionLetter =
  | ({ readonly kind: 'asked' } & Question)
  | ({ readonly kind: 'answered'; readonly from: number; readonly taken: boolean } & Question)
  | ({ readonly kind: 'decided'; readonly taken: boolean } & Question);

/** Milliseconds to wait for answers. If a process does not answer before that, the group fails. */
const ANSWER_MS = 10_000;

interface Ends {
  readonly here: number;
  readonly ranks: number;
  readonly verdict: Verdict;
  send(letter: QuestionLetter): void;
  ring(): void;
  fail(error: Error): void;
}

const groups = new WeakMap<SharedLearnerGroup, Questions>();
/** Registers the Questions object through which this thread asks about a group. */
export function putQuestions(group: SharedLearnerGroup, questions: Questions): void {
  groups.set(group, questions);
}
/**
 * Asks every other process whether it took the exchange. Returns false in a thread that did not
 * open MPI, which cannot ask.
 */
export function askToEnd(group: SharedLearnerGroup, question: Question): boolean {
  groups.get(group)?.ask(question);
  return groups.has(group);
}

/**
 * Sends and answers the questions of one process about one group, in the thread that opened MPI.
 */
export class Questions {
  readonly #ends: Ends;
  /** the question that this process asked and the answers so far, or null */
  #open: {
    question: Question;
    answers: Set<number>;
    taken: boolean;
    timer: NodeJS.Timeout;
  } | null = null;
  /** questions of others about an exchange whose predecessor is not decided here yet */
  #early: Question[] = [];

  constructor(ends: Ends) {
    this.#ends = ends;
  }

  /** Asks the other processes, once for each exchange. */
  ask(question: Question): void {
    const { verdict, send } = this.#ends;
    if (this.#open !== null || verdict.endedBy(question.exchange) !== null) return;
    // If this process has taken the exchange meanwhile, nothing can be ended.
    if (!verdict.ask(question.exchange)) return;
    const timer = setTimeout(() => this.#late(question), ANSWER_MS);
    this.#open = { question, answers: new Set(), taken: false, timer };
    send({ kind: 'asked', ...question });
  }

  hear(letter: QuestionLetter): void {
    if (letter.kind === 'asked') this.#answer(letter);
    else if (letter.kind === 'answered') this.#count(letter);
    else this.#settle(letter, letter.taken);
  }

  close(): void {
    clearTimeout(this.#open?.timer);
    this.#open = null;
  }

  #answer({ exchange, rank, why }: Question): void {
    const { verdict, here, send } = this.#ends;
    // The exchange before must be decided first, because both use the same word.
    if (verdict.isRequested(exchange - 1)) return void this.#early.push({ exchange, rank, why });
    const taken = !verdict.ask(exchange);
    send({ kind: 'answered', from: here, taken, exchange, rank, why });
  }

  #count({ from, taken, exchange, rank }: { from: number; taken: boolean } & Question): void {
    const open = this.#open;
    if (open === null || rank !== open.question.rank || exchange !== open.question.exchange) return;
    open.answers.add(from);
    open.taken ||= taken;
    if (open.answers.size === this.#ends.ranks - 1) this.#decide();
  }

  #decide(): void {
    const { question, taken, timer } = this.#open!;
    clearTimeout(timer);
    this.#open = null;
    this.#ends.send({ kind: 'decided', taken, ...question });
    this.#settle(question, taken);
  }

  #settle(question: Question, taken: boolean): void {
    const { verdict, ring } = this.#ends;
    if (taken) verdict.resume(question.exchange);
    else verdict.end(question.exchange, question);
    ring();
    for (const early of this.#early.splice(0)) this.#answer(early);
  }

  #late({ exchange, rank }: Question): void {
    const answered = this.#open?.answers ?? new Set();
    const silent = Array.from({ length: this.#ends.ranks }, (_, each) => each).filter(
      (each) => each !== this.#ends.here && !answered.has(each),
    );
    this.#open = null;
    this.#ends.fail(
      stateError(
        'CLOSED',
        `rank ${rank} ended its wait in exchange ${exchange}, and ranks ${silent.join(', ')} did not answer within ${ANSWER_MS / 1000} s: close every rank, and join a new group`,
      ),
    );
  }
}
