/**
 * Models the mailbox of weights: versions in three buffers, written by device copies or by a
 * thread, and a reader. A writer may die after it has begun a version, and poll may refuse one. The
 * memory shows stores late and out of order. The rules Mailbox-1 to Mailbox-4 are in
 * native/rows/mailbox.hpp. One reader is enough, because readers store nothing.
 */
import { type Model, type Move, type State, Violation } from './checker.ts';
import { At, Local, MAX_VERSIONS, memory, Replay, Thread, WIDTH } from './mailbox-memory.ts';
import { Writers } from './mailbox-writers.ts';

export interface MailboxSetup {
  /** number of versions that a run of a pipeline publishes */
  ticks: number;
  /** number of slots of the pipeline's ring, 2 or 3; 2 by default */
  depth?: 2 | 3;
  /**
   * Replay dies at any step, at most once, with a successor or without. Poll dies at most once
   * between publishing and handing the slot over.
   */
  dies?: 'followed' | 'alone';
  /** whether one version may have non-finite numbers */
  odd?: boolean;
  /** number of versions of a second run */
  again?: number;
  /** number of versions that a thread writes afterwards; whether the pipeline is still open then */
  writes: number;
  open?: boolean;
  /** rounds of the reader before it hears that all writers have ended; 1 by default */
  rounds?: number;
  broken?: MailboxMutation;
}

export type MailboxMutation =
  | 'a thread stores `begun` after it writes the buffer'
  | 'the writer does not fence after it stores `begun`'
  | 'a thread does not fence before it writes a version again'
  | 'replay enqueues the copy before it stores `begun`'
  | 'a thread stores `published` before it writes the buffer'
  | 'the writer stores `published` without release order'
  | 'poll publishes a version before its copy completes'
  | 'the mailbox uses only two of its three buffers'
  | 'the writer begins a third unpublished version'
  | 'poll publishes versions out of order'
  | 'a successor lowers `begun` to `published`'
  | 'a successor ignores versions that the dead writer began'
  | 'a successor lists unpublished versions before its slot is Free'
  | 'a successor writes versions again that poll will publish'
  | 'a successor does not compare its versions with `published` again'
  | 'poll lowers `refused` to an earlier version'
  | 'a pipeline closes before its last copy completes'
  | 'a closed pipeline does not refuse the versions that it began'
  | 'the reader loads `published` without acquire order'
  | 'the reader does not fence after its copy'
  | 'the reader checks `begun` before its copy'
  | 'the reader trusts its copy without checking `begun`'
  | 'the reader trusts its copy for one version too long'
  | 'the reader accepts a version that is not newer';

const REPLAYS = [
  'waits for the stream, and reads what is left',
  'looks at slot 0',
  'looks at slot 1',
  'looks at slot 2',
  'looks at published again',
  'begins or takes up a version',
  'orders its copy',
  'hands the slot over',
];
const HOSTS = [
  'takes version ',
  'begins ',
  ...Array.from({ length: 3 }, () => 'writes half '),
  'publishes ',
];
const READS = [
  'looks at published',
  'copies half 0',
  'copies half 1',
  'fences',
  'looks at begun',
  'has ended',
];
const Reader = { looks: 0, copies: 1, fences: 3, judges: 4, ends: 5 } as const;

export function mailboxProtocol(setup: MailboxSetup): Model {
  const writers = new Writers(setup);
  const is = (how: MailboxMutation) => setup.broken === how;
  const most = setup.ticks + (setup.again ?? 0) + setup.writes;
  if (most > MAX_VERSIONS) throw new Error('a state has no room for so many versions');

  const reader = (state: State, choice: number): boolean => {
    // All stores are made before the reader begins. No interleaving is missed: no writer waits for
    // the reader, and the reader's loads may find any of the stores.
    if (!state[Local.ended]) return false;
    const at = state[Local.reader]!;
    const go = (to: number) => {
      state[Local.reader] = to;
      return true;
    };
    const begun = () => memory.load(state, Thread.reader, At.begun, 'acquire', choice);
    if (at === Reader.looks) {
      const order = is('the reader loads `published` without acquire order')
        ? 'relaxed'
        : 'acquire';
      const version = memory.load(state, Thread.reader, At.published, order, choice);
      if (version < 0) return false;
      const had = is('the reader accepts a version that is not newer') ? 0 : state[Local.had]!;
      if (version <= had) return over(state);
      state[Local.hand] = version;
      return go(Reader.copies);
    }
    if (at === Reader.copies || at === Reader.copies + 1) {
      const half = at - Reader.copies;
      if (half === 0 && is('the reader checks `begun` before its copy'))
        state[Local.counted] = begun();
      const found = memory.load(
        state,
        Thread.reader,
        writers.bufferOf(state[Local.hand]!) + half,
        'bytes',
        choice,
      );
      if (found < 0) return false;
      state[Local.half + half] = found;
      return go(at + 1);
    }
    if (at === Reader.fences) {
      if (choice > 0) return false;
      if (!is('the reader does not fence after its copy'))
        memory.acquireFence(state, Thread.reader);
      return go(Reader.judges);
    }
    if (at !== Reader.judges) return false;
    if (!is('the reader checks `begun` before its copy')) {
      const counted = begun();
      if (counted < 0) return false;
      state[Local.counted] = counted;
    } else if (choice > 0) return false;
    return judges(state);
  };

  const judges = (state: State): boolean => {
    const version = state[Local.hand]!;
    const trusted =
      state[Local.counted]! - version <
      (is('the reader trusts its copy for one version too long') ? 4 : 3);
    const [had, published] = [state[Local.had]!, memory.newest(state, At.published)];
    state[Local.reader] = Reader.looks;
    state[Local.counted] = 0;
    if (!trusted && !is('the reader trusts its copy without checking `begun`')) {
      state.fill(0, Local.half, Local.half + 2);
      return true;
    }
    const truth = state[Local.truth + version]!;
    for (const half of [0, 1])
      if (state[Local.half + half] !== truth)
        throw new Violation(
          'Mailbox-3',
          `of version ${version} half ${half} is not what was published as it`,
        );
    if (version <= had)
      throw new Violation('newer', `version ${version} is given to who has had ${had}`);
    state.fill(0, Local.half, Local.half + 2);
    state[Local.had] = version;
    const last = state[Local.rounds] === (setup.rounds ?? 1);
    if (last && version !== published)
      throw new Violation('newest', `${published} is published, ${version} was given`);
    return over(state);
  };

  /**
   * Ends a round of the reader. After its last round it hears that all writers have ended, and must
   * then be given the newest version.
   */
  const over = (state: State): boolean => {
    state[Local.hand] = 0;
    state[Local.reader] = Reader.looks;
    const rounds = setup.rounds ?? 1;
    if (state[Local.rounds] === rounds) {
      const [had, published] = [state[Local.had]!, memory.newest(state, At.published)];
      if (had !== published)
        throw new Violation('newest', `${published} is published, ${had} was given`);
      state[Local.reader] = Reader.ends;
      return true;
    }
    state[Local.rounds]!++;
    if (state[Local.rounds] === rounds) memory.knowAll(state, Thread.reader);
    return true;
  };

  const move = (
    says: string | ((state: State) => string),
    apply: (state: State) => boolean,
    optional = false,
  ): Move => ({
    optional,
    says: typeof says === 'string' ? () => says : says,
    apply,
  });
  /** A move of the writers, which all end before the reader begins. */
  const write = (
    says: string | ((state: State) => string),
    apply: (state: State) => boolean,
    optional = false,
  ) => move(says, (state) => !state[Local.ended] && apply(state), optional);
  const choices = Array.from({ length: most + 1 }, (_, choice) => choice);
  const moves = [
    ...[0, 1].map((choice) =>
      write(
        (state) => `replay ${REPLAYS[state[Local.replay]!]}`,
        (state) => writers.replay(state, choice),
      ),
    ),
    ...[0, 1].map((half) =>
      write(`half ${half} of a copy lands`, (state) => writers.lands(state, half)),
    ),
    write('poll passes on what is over', (state) => writers.poll(state, false)),
    write('poll finds what is no number', (state) => writers.poll(state, true), true),
    write('poll dies', (state) => writers.pollDies(state), true),
    write('replay dies', (state) => writers.replayDies(state), true),
    write('the run is over', (state) => writers.next(state)),
    ...[0, 1].map((half) =>
      write(
        (state) => `a thread ${HOSTS[state[Local.host]!]}${half}`,
        (state) => writers.host(state, half),
      ),
    ),
    move('all writers have ended', (state) => {
      if (state[Local.ended] || state[Local.phase] !== 2 || !writers.done(state)) return false;
      writers.forget(state);
      state[Local.ended] = 1;
      return true;
    }),
    ...choices.map((choice) =>
      move(
        (state) => `the reader ${READS[state[Local.reader]!]}: ${choice} before the newest`,
        (state) => reader(state, choice),
      ),
    ),
  ];
  return {
    width: WIDTH,
    moves,
    start: (state) => {
      state.fill(0);
      state[Local.ticks] = setup.ticks;
      state[Local.replay] = setup.ticks ? Replay.begins : Replay.over;
    },
    unfinished: (state) =>
      state[Local.reader] === Reader.ends
        ? null
        : state[Local.ended]
          ? 'the reader has no end'
          : `${state[Local.writes]} of ${setup.writes} versions can be written`,
  };
}
