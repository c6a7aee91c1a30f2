/**
 * A session as the learner's thread knows it; what outlives the thread is its line of the marks.
 */
import { type SessionOffsets, SessionState } from './session-offsets.ts';

export class Session {
  readonly id: number;
  readonly line: number;
  firstLane: number;
  readonly lanes: number;
  readonly mark: ReturnType<SessionOffsets['of']>;
  nak: number;
  ended: boolean;
  /** an earlier learner had it, and it has not been heard of since */
  restored: boolean;
  /** as the marks have it: who takes over begins each of its episodes anew */
  cut: boolean;
  /** asked for rows that have not come yet */
  asked = false;
  /** bytes that it may have on the way; 0 before it was told */
  window = 0;
  rows = 0;
  /** oldest version that its last rows were acted by */
  version = 0;
  /** when something came, by performance.now(): the wall clock may jump */
  heardMs = 0;

  constructor(marks: SessionOffsets, line: number) {
    const { session, nak, state, firstLane, lanes, cut } = marks.read(line);
    this.id = session;
    this.line = line;
    this.firstLane = firstLane;
    this.lanes = lanes;
    this.mark = marks.of(line);
    this.nak = nak;
    this.ended = state === SessionState.ended;
    this.restored = state === SessionState.restored;
    this.cut = cut;
  }
}
