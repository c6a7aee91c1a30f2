/**
 * Tests how the learner handles single messages: sessions that leave, sessions of an earlier
 * learner, lanes, and episodes with missing steps.
 */
import { expect } from 'chai';
import { ReplayBuffer, TrajectoryBuffer } from '../../src/index.ts';
import { Ingest } from '../../src/net/remote/ingest.ts';
import {
  BYE,
  emptyHeader,
  HEADER_BYTES,
  HELLO,
  type MessageHeader,
  sealMessage,
} from '../../src/net/remote/message.ts';
import { type OpenSink, sinkOf } from '../../src/net/remote/row-sink.ts';
import { type SavedOffset, SessionOffsets } from '../../src/net/remote/session-offsets.ts';
import { stepsOutgoing } from '../../src/store/lanes/outgoing.ts';
import { rowBytesOf } from '../../src/store/lanes/packed-rows.ts';
import { rowFields, stepFields } from './run-collector.ts';

const LANES = 4;
/** The kind of a step that begins an episode, whatever the lane held before. */
const FIRST = 8;

describe('Ingest.take()', () => {
  const sinks: OpenSink[] = [];
  afterEach(() => {
    for (const sink of sinks.splice(0)) sink.close();
  });

  const stepsBuffer = () =>
    TrajectoryBuffer.create({ capacity: 400, lanes: LANES, fields: stepFields });
  type Steps = ReturnType<typeof stepsBuffer>;

  /** Creates the ingest of a learner's thread over a buffer. */
  function learner(
    buffer: Steps | ReplayBuffer,
    given: { marks?: SessionOffsets; saved?: SavedOffset[]; version?: number } = {},
  ) {
    const { saved = [], marks = SessionOffsets.create(saved), version = 0 } = given;
    const sink = sinkOf(buffer.share() as never);
    sinks.push(sink);
    const ingest = new Ingest({
      marks,
      sink,
      layout: 7,
      maxVersionLag: 1,
      version: () => version,
      now: Date.now,
    });
    const rowBytes = buffer instanceof ReplayBuffer ? buffer.rowBytes : rowBytesOf(buffer.layout);
    /**
     * Takes a message with rows without content. For steps, the rows belong to the lanes `of` in
     * turn and are in the middle of an episode.
     */
    const take = (session: number, header: Partial<MessageHeader> = {}, of = [0]) => {
      const { rows = 0 } = header;
      const bytes = new Uint8Array(HEADER_BYTES + rows * rowBytes);
      for (let row = 0; row < rows; row++)
        bytes[HEADER_BYTES + row * rowBytes] = of[row % of.length]!;
      const lanes = buffer instanceof ReplayBuffer ? 0 : 1;
      sealMessage(bytes, {
        ...emptyHeader(),
        session,
        rowBytes,
        layout: 7,
        sent: Date.now(),
        lanes,
        version,
        ...header,
      });
      expect(ingest.take(bytes), 'take() has handled the message').to.equal(true);
    };
    const end = () => sinks.splice(sinks.indexOf(sink), 1)[0]!.close();
    const laneOf = (session: number) => ingest.sessions.get(session)?.firstLane;
    return { ingest, marks, take, end, laneOf };
  }

  for (const kind of ['rows', 'steps'] as const) {
    const make = () =>
      kind === 'rows'
        ? (ReplayBuffer.create({ capacity: 100, fields: rowFields }) as unknown as ReplayBuffer)
        : stepsBuffer();

    it(`${kind}: counts rows that were lost before the BYE message of a session`, () => {
      const first = learner(make());
      first.take(1, { flags: HELLO, rows: 3 });
      const saved = first.marks.saved();
      const { ingest, marks, take } = learner(make(), { saved });
      take(1, { flags: BYE, first: 8, base: 8 });
      expect(ingest.counts).to.include({ refused: 0 });
      expect(ingest.sessions.get(1)).to.include({ ended: true });
      expect(marks.saved()[0]).to.include({ mark: 8 });
      // The count must not depend on the thread that counted.
      expect([marks.lost, new SessionOffsets(marks.shared).lost, first.marks.lost]).to.deep.equal([
        5, 5, 0,
      ]);
    });

    it(`${kind}: refuses a BYE message with rows`, () => {
      const buffer = make();
      const { ingest, take } = learner(buffer);
      take(1, { flags: HELLO, rows: 3 });
      take(1, { flags: BYE, first: 3, rows: 2 });
      take(2, { flags: BYE, rows: 2 });
      expect(ingest.counts).to.include({ rows: 3, refused: 2 });
      take(1, { first: 3, rows: 1 });
      expect(ingest.counts).to.include({ rows: 4, refused: 2 });
      expect([...ingest.sessions.keys()]).to.deep.equal([1]);
    });
  }

  it('gives a session of an earlier learner its lanes again unless other sessions took them', () => {
    const buffer = stepsBuffer();
    const before = learner(buffer);
    for (const session of [1, 2, 3, 4]) before.take(session, { flags: HELLO, rows: 2 });
    const saved = before.marks.saved();
    before.end();
    const { ingest, take, laneOf, marks, end } = learner(buffer, { saved });
    take(2, { first: 2, rows: 1 });
    // Session 1 has not returned yet. Session 5 gets its lane, because no other lane is free.
    take(5, { flags: HELLO });
    take(6, { flags: HELLO });
    expect([2, 5, 6].map(laneOf)).to.deep.equal([1, 0, 2]);
    take(1, { first: 2, rows: 1 });
    expect([laneOf(1), ingest.refusals.size]).to.deep.equal([3, 0]);
    take(4, { first: 2, rows: 1 });
    expect(ingest.refusals.get(4)).to.match(/0 of the learner’s 4 lanes are free/);
    expect(ingest.counts).to.include({ rows: 2, refused: 1 });
    // Session 4 was refused and has ended. Its later messages are refused too, although a lane is
    // free now.
    take(6, { flags: BYE });
    take(4, { first: 2, rows: 1 });
    expect(ingest.counts).to.include({ rows: 2, refused: 2 });
    take(7, { flags: HELLO });
    expect(laneOf(7)).to.equal(2);
    // The next thread must have the same sessions and lanes.
    end();
    const after = learner(buffer, { marks });
    after.take(1, { first: 3, rows: 1 });
    expect([1, 2, 5, 7].map(after.laneOf)).to.deep.equal([3, 1, 0, 2]);
    expect(after.ingest.counts).to.include({ rows: 1, refused: 0 });
    // Session 1 begins a new episode and does not continue the episode of session 4.
    expect(kindsIn(buffer)).to.deep.equal({
      0: [FIRST, 0],
      1: [FIRST, 0, 0],
      2: [FIRST, 0],
      3: [FIRST, 0, FIRST, 0],
    });
  });

  for (const way of ['another thread', 'a checkpoint'] as const)
    it(`starts a new episode after steps that were dropped before ${way}`, () => {
      const buffer = stepsBuffer();
      const before = learner(buffer, { version: 5 });
      before.take(1, { flags: HELLO, rows: 2 });
      before.take(1, { first: 2, rows: 3, version: 1 });
      expect(before.ingest.counts).to.include({ rows: 2, stale: 3 });
      before.end();
      const saved = before.marks.saved();
      const marks = way === 'a checkpoint' ? SessionOffsets.create(saved) : before.marks;
      const next = learner(buffer, { marks });
      next.take(1, { first: 5, rows: 2 });
      // The new episode must begin only once.
      next.end();
      learner(buffer, { marks }).take(1, { first: 7, rows: 1 });
      expect(kindsIn(buffer)).to.deep.equal({ 0: [FIRST, 0, FIRST, 0, 0] });
    });

  for (const way of ['another thread', 'a checkpoint'] as const)
    it(`starts a new episode in each lane of a session that dropped steps before ${way}`, () => {
      const buffer = stepsBuffer();
      const lanes = 2;
      const before = learner(buffer, { version: 5 });
      before.take(1, { flags: HELLO, rows: 2, lanes }, [0, 1]);
      before.take(1, { first: 2, rows: 2, lanes, version: 1 }, [0, 1]);
      before.take(1, { first: 4, rows: 1, lanes }, [0]);
      expect(before.marks.saved()[0]).to.include({ cut: true });
      before.end();
      const marks =
        way === 'a checkpoint' ? SessionOffsets.create(before.marks.saved()) : before.marks;
      const next = learner(buffer, { marks });
      next.take(1, { first: 5, rows: 2, lanes }, [1, 0]);
      expect(marks.saved()[0]).to.include({ cut: false });
      next.take(1, { first: 7, rows: 2, lanes }, [0, 1]);
      // Lane 0 begins one episode more than necessary.
      expect(kindsIn(buffer)).to.deep.equal({ 0: [FIRST, FIRST, FIRST, 0], 1: [FIRST, FIRST, 0] });
    });

  it('starts a new episode for a session without rows in the lane of an ended session', () => {
    const buffer = stepsBuffer();
    const before = learner(buffer);
    before.take(1, { flags: HELLO, rows: 2 });
    before.take(1, { flags: BYE, first: 2 });
    before.take(2, { flags: HELLO });
    before.end();
    const after = learner(buffer, { marks: before.marks });
    expect(after.laneOf(2)).to.equal(0);
    after.take(2, { rows: 2 });
    expect(kindsIn(buffer)).to.deep.equal({ 0: [FIRST, 0, FIRST, 0] });
  });

  it('accepts saved offsets of an older version, which have no `cut`', () => {
    const buffer = stepsBuffer();
    const saved = [{ session: 1, mark: 2, state: 0, firstLane: 3, lanes: 1 }];
    const { take, laneOf } = learner(buffer, { saved });
    take(1, { first: 2, rows: 1 });
    expect(laneOf(1)).to.equal(3);
    expect(kindsIn(buffer)[3]).to.have.length(1);
  });
});

/** Returns the kinds of each lane's steps, in order. */
function kindsIn(buffer: TrajectoryBuffer<typeof stepFields>): Record<number, number[]> {
  const found: Record<number, number[]> = {};
  const outgoing = stepsOutgoing(buffer as unknown as TrajectoryBuffer);
  const bytes = new Uint8Array(100 * outgoing.rowBytes);
  const { rows } = outgoing.take(bytes, 100);
  const view = new DataView(bytes.buffer);
  for (let at = 0; at < rows * outgoing.rowBytes; at += outgoing.rowBytes) {
    const lane = view.getUint16(at, true);
    found[lane] = [...(found[lane] ?? []), view.getUint16(at + 2, true)];
  }
  return found;
}
