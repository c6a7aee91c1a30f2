/** A session as the learner's thread knows it. Only its line of the marks outlives the thread. */
import { type SessionOffsets, SessionState } from './session-offsets.ts';

export class Session {
  readonly id: number;
  readonly line: number;
  firstLane: number;
  readonly lanes: number;
  readonly mark: ReturnType<SessionOffsets['of']>;
  nak: number;
  ended: boolean;
  /** an earlier learner had it, and it has sent nothing since */
  restored: boolean;
  /** as in the marks: a thread that takes over begins each of its episodes anew */
  cut: boolean;
  /** missing rows were requested and have not come yet */
  requested = false;
  /** bytes that it may have on the way, 0 before its first acknowledgement */
  window = 0;
  rows = 0;
  /** oldest version that its last rows were acted by */
  version = 0;
  /** time of its last message, by performance.now() because the wall clock may jump */
  lastMs = 0;

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
