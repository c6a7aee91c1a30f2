/**
 * A session in the learner's thread. If the thread ends, only the session's line remains
 * (session-offsets.ts).
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
  /** whether the session comes from a checkpoint, and has sent nothing since */
  restored: boolean;
  /**
   * whether a thread that replaces this one begins a new episode in each lane (Ingest-5). The
   * session's line has the same value
   */
  cut: boolean;
  /** whether missing rows were requested and have not arrived yet */
  requested = false;
  /** bytes that the session may have in transit, 0 before its first acknowledgement */
  window = 0;
  rows = 0;
  /** oldest version of the weights that chose the actions of its last rows */
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
