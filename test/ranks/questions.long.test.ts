/**
 * Tests Questions, by which processes that wait in an exchange ask each other to end it. For any
 * order of messages, either every rank takes the exchange or every rank ends it.
 */
import { expect } from 'chai';
import { type QuestionLetter, Questions } from '../../src/engine/group/questions.ts';
import { VERDICT_WORDS, Verdict } from '../../src/engine/group/verdict.ts';
import { itLonger, setting } from '../rig/setting.ts';

const EXCHANGES = 3;

/** xorshift32 */
function drawn(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

interface Process {
  readonly verdict: Verdict;
  readonly questions: Questions;
  /** exchanges for which it has sent its part */
  sent: number;
  /** the result of each exchange that it knows: 'taken' or 'ended' */
  readonly came: string[];
  /** for each exchange, the parts of other processes that have arrived */
  readonly parts: number[];
}

/**
 * Plays three processes with three exchanges. Messages between two processes arrive in order, after
 * any delay. A random generator draws which process asks, when it asks, and which process is late.
 * Returns the result of each exchange.
 */
function play(seed: number, breaks: (verdict: Verdict) => void): string[] {
  const random = drawn(seed);
  const ranks = 3;
  const asks = random(4);
  type Message = QuestionLetter | { kind: 'part'; exchange: number };
  const channels = Array.from({ length: ranks * ranks }, () => [] as Message[]);
  const send = (from: number, message: Message) => {
    for (let to = 0; to < ranks; to++) if (to !== from) channels[from * ranks + to]!.push(message);
  };
  const failed: Error[] = [];
  const processes: Process[] = Array.from({ length: ranks }, (_, here) => {
    const verdict = new Verdict(new BigInt64Array(new SharedArrayBuffer(8 * VERDICT_WORDS)));
    breaks(verdict);
    const ends = {
      here,
      ranks,
      verdict,
      ring: () => {},
      fail: (error: Error) => void failed.push(error),
    };
    const questions = new Questions({ ...ends, send: (letter) => send(here, letter) });
    return { verdict, questions, sent: 0, came: [], parts: Array(EXCHANGES + 1).fill(0) };
  });
  const waits = ({ sent, came }: Process) => sent > came.length;
  const look = (process: Process) => {
    if (!waits(process)) return;
    const exchange = process.sent;
    if (process.parts[exchange] === ranks - 1) {
      const ended = process.verdict.take(exchange);
      if (ended !== 'asked') process.came.push(ended === null ? 'taken' : 'ended');
    } else if (process.verdict.endedBy(exchange) !== null) process.came.push('ended');
  };
  // Group-5: a process sends the next exchange only after all parts of the last one have arrived.
  const mayStart = (process: Process) =>
    !waits(process) &&
    process.sent < EXCHANGES &&
    (process.sent === 0 || process.parts[process.sent] === ranks - 1);
  let asked = 0;
  for (let step = 0; step < 4000; step++) {
    const rank = random(ranks);
    const process = processes[rank]!;
    const what = random(8);
    if (what === 0 && mayStart(process)) send(rank, { kind: 'part', exchange: ++process.sent });
    else if (what === 1 && waits(process) && asked < asks && random(3) === 0) {
      asked++;
      process.questions.ask({ exchange: process.sent, rank, why: 2 });
    } else if (what < 5) look(process);
    else {
      const from = random(ranks);
      const message = channels[from * ranks + rank]!.shift();
      if (message === undefined) continue;
      if (message.kind === 'part') process.parts[message.exchange]!++;
      else process.questions.hear(message);
    }
  }
  for (const { questions } of processes) questions.close();
  expect(failed).to.deep.equal([]);
  return Array.from({ length: EXCHANGES }, (_, exchange) => {
    const all = processes.map(({ came }) => came[exchange] ?? 'open');
    expect(new Set(all).size, `seed ${seed}, exchange ${exchange + 1}: ${all.join(', ')}`).to.equal(
      1,
    );
    expect(all[0], `seed ${seed}, exchange ${exchange + 1} is decided`).not.to.equal('open');
    return all[0] as string;
  });
}

describe('questions between processes', function () {
  this.timeout(300_000);
  const rounds = setting({ short: 200, all: 10_000 });

  itLonger('every rank takes an exchange, or every rank ends it', () => {
    const came = { taken: 0, ended: 0 };
    for (let seed = 1; seed <= rounds; seed++)
      for (const how of play(seed, () => {})) came[how as keyof typeof came]++;
    expect(came.taken).to.be.greaterThan(rounds / 10);
    expect(came.ended).to.be.greaterThan(rounds / 10);
  });

  for (const [fault, breaks] of Object.entries<(verdict: Verdict) => void>({
    'an ask() that does not mark the exchange': (verdict) => {
      verdict.ask = (exchange) =>
        verdict.endedBy(exchange) === null && !verdict.isRequested(exchange);
    },
    'an exchange that is taken after a question about it': (verdict) => {
      const { take } = verdict;
      verdict.take = (exchange) => {
        const ended = take.call(verdict, exchange);
        return ended === 'asked' ? null : ended;
      };
    },
    'an exchange that is taken after a question about the next exchange': (verdict) => {
      const { take } = verdict;
      let latest = 0;
      const { ask } = verdict;
      verdict.ask = (exchange) => {
        latest = Math.max(latest, exchange);
        return ask.call(verdict, exchange);
      };
      verdict.take = (exchange) => (latest > exchange ? null : take.call(verdict, exchange));
    },
    'a decision that is not stored': (verdict) => {
      verdict.end = () => true;
    },
  }))
    it(`random message orders detect ${fault}`, () => {
      expect(() => {
        for (let seed = 1; seed <= 10_000; seed++) play(seed, breaks);
      }).to.throw(/seed/);
    });
});
