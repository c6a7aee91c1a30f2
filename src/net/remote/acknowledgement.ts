/**
 * The learner's message to a session: `epoch:row:window:nak`. If the learner refuses the session, a
 * colon and the reason follow. The message is a state, not an event: only the newest message
 * counts, however often it is read.
 *
 * All rows before `row` are in the buffer, or were dropped and counted. `nak` counts how often the
 * learner found rows missing. When `nak` grows, the host sends all unacknowledged messages again.
 */
export interface Acknowledgement {
  readonly epoch: number;
  readonly row: number;
  /** bytes that the session may have in transit. It may always send one message */
  readonly window: number;
  readonly nak: number;
  /** reason for refusing the session, or '' if it is not refused */
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

/** Reads an acknowledgement. Returns null for any other text. */
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
 * The learner's heartbeat, stored once a second: `epoch:beat:count`. `beat` grows each time, which
 * shows a host that the learner is alive.
 *
 * `count` grows only if the learner has decided on every message that was in the stream when
 * `count` last grew, and has stored the acknowledgements. The first growth after a message was sent
 * may concern only older messages. After the second growth, the message is either acknowledged, or
 * was missing in the stream.
 */
export interface Heartbeat {
  readonly epoch: number;
  readonly beat: number;
  readonly count: number;
}
/** Returns the name of a shard's heartbeat field among the acknowledgements. */
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
