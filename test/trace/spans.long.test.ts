/**
 * Tests feeders, such as remote collectors, in a pipeline's texts and traces: which feeders its
 * buffer has, and the spans of their work.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { feed } from '../../src/engine/trace/feeders.ts';
import { type Span, Spans } from '../../src/engine/trace/spans.ts';
import { RateLimiter, ReplayBuffer } from '../../src/index.ts';
import { closeAll, filled, pipeline, rows, SAMPLE } from '../pipeline/fixture.ts';
import { itLonger } from '../rig/setting.ts';

const span = (n: number): Span => ({
  name: n % 2 ? 'remote/commit' : 'remote/read',
  beginMs: n,
  endMs: n + 0.5,
  messages: 1,
  rows: n,
  bytes: 8 * n,
});

describe('spans and texts of row feeders', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-spans-'));
  after(() => rmSync(folder, { recursive: true }));
  afterEach(closeAll);

  it('Spans.read() returns every span once in order, and the number of missed spans', () => {
    const place = Spans.allocate();
    const [writer, reader] = [new Spans(place), new Spans(place)];
    const read: Span[] = [];
    let from = reader.head;
    const look = () => {
      const { next, missed } = reader.read(from, (each) => read.push(each));
      from = next;
      return missed;
    };
    for (let n = 0; n < 100; n++) writer.write(span(n));
    expect(look()).to.equal(0);
    expect(read).to.deep.equal(Array.from({ length: 100 }, (_, n) => span(n)));
    expect([look(), read.length]).to.deep.equal([0, 100]);
    for (let n = 100; n < 10_100; n++) writer.write(span(n));
    expect(look()).to.equal(10_000 - 4095);
    expect(read.slice(100)).to.deep.equal(
      Array.from({ length: 4095 }, (_, n) => span(10_100 - 4095 + n)),
    );
  });

  itLonger(
    'a trace has one track per feeder, with the spans since the pipeline was opened',
    async () => {
      const file = join(folder, 'trace.json');
      const buffer = filled();
      const [first, second] = [new Spans(Spans.allocate()), new Spans(Spans.allocate())];
      first.write(span(0));
      const words = { waitingFor: () => null };
      const leave = feed(buffer.share().memory, { ...words, spans: [first] });
      const made = await pipeline({ buffer, trace: { file } });
      made.capture(() => {});
      first.write(span(2));
      await made.run({ ticks: 3 });
      // Another feeder joins, and the first one leaves before its last span was read.
      const gone = feed(buffer.share().memory, { ...words, spans: [second] });
      for (let n = 0; n < 5000; n++) second.write(span(3));
      first.write(span(5));
      leave();
      await made.close();
      gone();
      const { traceEvents, otherData } = JSON.parse(readFileSync(file, 'utf8'));
      type Event = {
        name: string;
        tid: number;
        ph: string;
        ts: number;
        dur: number;
        args: { name?: string };
      };
      const named = (traceEvents as Event[]).filter(
        ({ name, tid }) => name === 'thread_name' && tid > 7,
      );
      expect(named.map(({ args, tid }) => [tid, args.name])).to.deep.equal([
        [8, 'remote 0'],
        [9, 'remote 1'],
      ]);
      const spans = (traceEvents as Event[]).filter(({ name }) => name.startsWith('remote/'));
      const of = (tid: number) => spans.filter((each) => each.tid === tid);
      expect(of(8).map(({ name, ts, dur, args }) => [name, ts, dur, args])).to.deep.equal([
        ['remote/read', 2000, 500, { messages: 1, bytes: 16 }],
        ['remote/commit', 5000, 500, { messages: 1, rows: 5, bytes: 40 }],
      ]);
      expect(of(9)).to.have.length(4095);
      expect(otherData).to.deep.equal({ missedSpans: 5000 - 4095 });
    },
  );

  it('waitingFor() includes texts of feeders when the pipeline waits for rows, not for a request', async () => {
    const buffer = filled(0);
    const made = await pipeline({ buffer, placement: 'inline' });
    let words: string | null = 'rows: 12 hosts, 3 silent for 4 s';
    const feeder = { waitingFor: () => words, spans: [] };
    const leave = feed(buffer.share().memory, feeder);
    const other = ReplayBuffer.create({ capacity: 8, fields: { x: { shape: [1] } } });
    const leaveOther = feed(other.share().memory, {
      waitingFor: () => 'rows: none of these',
      spans: [],
    });
    made.step();
    expect(made.waitingFor()).to.equal('a request for a tick');
    made.startPrepare(0, SAMPLE, 20);
    made.step();
    expect(made.waitingFor()).to.equal(
      'rows: 0 were added so far; rows: 12 hosts, 3 silent for 4 s',
    );
    words = null;
    expect(made.waitingFor()).to.equal('rows: 0 were added so far');
    words = 'rows: 1 host';
    const again = feed(buffer.share().memory, {
      waitingFor: () => 'rows: no collector host has connected yet',
      spans: [],
    });
    expect(made.waitingFor()).to.match(
      /; rows: 1 host; rows: no collector host has connected yet$/,
    );
    again();
    leave();
    expect(made.waitingFor()).to.equal('rows: 0 were added so far');
    leaveOther();
  });

  itLonger('waitingFor() includes texts of feeders while the limiter blocks sampling', async () => {
    const limiter = RateLimiter.create({ samplesPerInsert: 1, minSize: 50, errorBuffer: 100 });
    const buffer = ReplayBuffer.offPolicy({ capacity: 100, obsDim: 4, actionDim: 1, limiter });
    buffer.add(rows(20));
    const made = await pipeline({ buffer });
    made.capture(() => {});
    const leave = feed(buffer.share().memory, { waitingFor: () => 'rows: 2 hosts', spans: [] });
    const stop = new AbortController();
    const run = made.run({ signal: stop.signal });
    const all = 'samples: needs 50 rows, has 20; rows: 2 hosts';
    while (made.waitingFor() !== all) await new Promise(setImmediate);
    leave();
    stop.abort();
    expect(await run).to.include({ ticks: 0 });
  });
});
