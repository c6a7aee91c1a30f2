/**
 * What the learner says to a session: `epoch:row:window:nak`, and behind one more colon why it is
 * refused. It is a state, not an event: the newest holds, however often it is read. `row`: all
 * before it are in the buffer, or dropped and counted. `nak` counts how often the learner found
 * rows missing: when it grows, the host sends again all that is unacknowledged.
 */
export interface Acknowledgement {
  readonly epoch: number;
  readonly row: number;
  /** bytes that may be on the way, one message at least */
  readonly window: number;
  readonly nak: number;
  /** the session is refused for this reason, whatever it sends; '' where it is not */
  readonly refused: string;
}

export const writeAcknowledgement = ({
  epoch,
  row,
  window,
  nak,
  refused,
}: Acknowledgement): string =>
  `${epoch}:${row}:${window}:${nak}${refused === '' ? '' : `:${refused}`}`;

/** Null for what is none. */
export function readAcknowledgement(text: string): Acknowledgement | null {
  const found = /^(\d{1,16}):(\d{1,16}):(\d{1,10}):(\d{1,10})(?::(.*))?$/s.exec(text);
  if (found === null) return null;
  const [epoch, row, window, nak] = found.slice(1, 5).map(Number) as [
    number,
    number,
    number,
    number,
  ];
  return { epoch, row, window, nak, refused: found[5] ?? '' };
}

/**
 * The learner's heartbeat, once a second: `epoch:beat:count`. `count` grows with a beat when all
 * was decided on that lay in the stream when it grew last, and the acknowledgements were stored. So
 * what was in the stream before two such beats is acknowledged behind them, or was never there;
 * whether something else came does not matter.
 */
export interface Heartbeat {
  readonly epoch: number;
  readonly beat: number;
  readonly count: number;
}
/** The field of a shard's among the acknowledgements. */
export const heartbeatField = (shard: number): string => `*${shard}`;
export const HEARTBEAT_MS = 1000;

export const writeHeartbeat = ({ epoch, beat, count }: Heartbeat): string =>
  `${epoch}:${beat}:${count}`;
export function readHeartbeat(text: string): Heartbeat | null {
  const found = /^(\d{1,16}):(\d{1,16}):(\d{1,16})$/.exec(text);
  if (found === null) return null;
  const [epoch, beat, count] = found.slice(1).map(Number) as [number, number, number];
  return { epoch, beat, count };
}
