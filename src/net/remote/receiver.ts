/**
 * The learner's end of one stream, in a thread of its own: it reads, commits and acknowledges. The
 * thread may end at any moment: all that it knows is in the marks, and a thread that takes over
 * reads the stream from its beginning.
 *
 *   Receiver-1  Only messages that were decided on are trimmed, and only by ids of the same
 *       connection.
 *   Receiver-2  After every connection the stream is read from the first message that is there, and
 *       all acknowledgements and refusals are sent again.
 *   Receiver-3  After another run of the server, once every message that lay there was decided on
 *       (Receiver-5), every session is asked for its unacknowledged rows.
 *   Receiver-4  An acknowledgement is sent until its write was confirmed, and its messages are
 *       trimmed before: the server never has more bytes than may be on the way.
 *   Receiver-5  A beat counts when every message that lay in the stream when the last one had
 *       counted was decided on and acknowledged (stream-watermark.ts). A message that a host sent
 *       before two such beats and that is not acknowledged is not there. It does not matter whether
 *       the stream ever becomes empty.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { nowMs } from '../../base/clock.ts';
import type { Spans } from '../../engine/trace/spans.ts';
import {
  HEARTBEAT_MS,
  heartbeatField,
  writeAcknowledgement,
  writeHeartbeat,
} from './acknowledgement.ts';
import type { Ingest } from './ingest.ts';
import { type Keys, sessionName } from './keys.ts';
import { BEFORE_FIRST, type Entry, type Link, LinkError, type ServerFacts } from './link.ts';
import type { OpenSink } from './row-sink.ts';
import type { Session } from './session.ts';
import { StreamWatermark } from './stream-watermark.ts';
import { Windows } from './windows.ts';

export interface ReceiverOptions {
  readonly link: Link;
  readonly keys: Keys;
  readonly shard: number;
  readonly epoch: number;
  readonly ingest: Ingest;
  readonly sink: OpenSink;
  /** bytes of rows that all sessions of this stream together may have on the way */
  readonly transitBytes: number;
  /** paused from the beginning */
  readonly held: boolean;
}

/** Messages that are read at once, and wait here while the limiter does not admit them. */
const MAX_MESSAGES = 4;
const WAIT_MS = 250;
const PARK_MS = 100;
const ASK_AGAIN_MS = 5;

/** Returns how a call failed. An error other than the link's does not go away either. */
const howOf = (error: unknown): LinkError['how'] =>
  error instanceof LinkError ? error.how : 'denied';

export class Receiver {
  /** spans of its work, for traces */
  spans: Spans | null = null;
  /** total ms that the limiter let nothing in */
  gatedMs = 0;
  readonly #given: ReceiverOptions;
  /** number of the connection: ids of an earlier one mean nothing */
  #connection = 0;
  #connected = false;
  #server: string | null = null;
  /** every session is to be asked (Receiver-3) */
  #asks = false;
  /** id of the last message decided on in this connection, or null before the first */
  #done: string | null = null;
  #trimmed: string | null = null;
  #saying = false;
  #beat = 0;
  /** beats that count */
  #count = 0;
  readonly #watermark = new StreamWatermark();
  readonly #windows: Windows;
  #held: boolean;
  #stopped = false;
  #failure: { readonly error: unknown } | null = null;
  #wake: () => void = () => {};

  constructor(given: ReceiverOptions) {
    this.#given = given;
    this.#held = given.held;
    this.#windows = new Windows(given.ingest, given.transitBytes);
  }

  get connected(): boolean {
    return this.#connected;
  }

  /** Called by the link after every connection (Receiver-2). */
  onConnected(server: ServerFacts): void {
    this.#connection++;
    this.#connected = true;
    this.#done = null;
    this.#trimmed = null;
    this.#asks ||= this.#server !== null && this.#server !== server.run;
    this.#server = server.run;
    this.#given.ingest.sayAgain();
    this.#readLength();
    this.#say();
    this.#wake();
  }
  onLost(): void {
    this.#connected = false;
    this.#watermark.forget();
  }

  /** No row is added from the moment this returns until release(). */
  hold(): void {
    this.#held = true;
  }
  release(): void {
    this.#held = false;
    this.#wake();
  }
  stop(): void {
    this.#stopped = true;
    this.#wake();
  }

  /** Receives until stop(), then resolves. Rejects with an error that makes continuing useless. */
  async run(): Promise<void> {
    const beats = setInterval(() => this.#sendBeat(), HEARTBEAT_MS);
    try {
      while (!this.#stopped) {
        if (this.#failure) throw this.#failure.error;
        if (this.#connected && !this.#held) await this.#round();
        else
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
      }
    } finally {
      clearInterval(beats);
    }
  }

  async #round(): Promise<void> {
    const { link, keys, shard } = this.#given;
    const connection = this.#connection;
    // If nothing is left to trim, the first message is the next one, whatever its id: the server's
    // clock may have been set back.
    const from = this.#done === null || this.#done === this.#trimmed ? BEFORE_FIRST : this.#done;
    const [check, beginMs] = [this.#watermark.number, nowMs()];
    let entries: readonly Entry[];
    try {
      entries = await link.read(keys.stream(shard), from, MAX_MESSAGES, WAIT_MS);
    } catch (error) {
      if (howOf(error) === 'denied') throw error;
      // The link reports when it is connected again. Until then, a read would fail at once.
      if (connection === this.#connection) this.#connected &&= howOf(error) === 'full';
      if (howOf(error) === 'full') await wait(PARK_MS);
      return;
    }
    if (connection !== this.#connection) return;
    const size = entries.reduce((sum, each) => sum + each.bytes.length, 0);
    const all = { messages: entries.length, rows: 0, bytes: size };
    this.spans?.write({ name: 'remote/read', beginMs, endMs: nowMs(), ...all });
    for (const { id, bytes } of entries) {
      if (!(await this.#taken(bytes))) return;
      // A connection that came meanwhile reads this message again, and finds that it came before.
      if (connection !== this.#connection) return;
      this.#done = id;
      this.#watermark.decided();
      this.#ask();
    }
    if (entries.length < MAX_MESSAGES && from === BEFORE_FIRST) this.#watermark.ended(check);
    this.#ask();
    this.#say();
  }

  /** Receiver-5: begins a look at the messages in the stream now. */
  #readLength(): void {
    const { link, keys, shard } = this.#given;
    const check = this.#watermark.begin(link.length(keys.stream(shard)));
    // A look that fails is begun again with the next beat, or connection.
    check.then(() => this.#ask()).catch((error) => howOf(error) === 'denied' && this.#fail(error));
  }

  /** Receiver-3 */
  #ask(): void {
    if (!this.#asks || !this.#watermark.over) return;
    this.#asks = false;
    this.#given.ingest.askAll();
    this.#say();
  }

  /** Commits a message. Returns false if this thread stops or pauses, and will read it again. */
  async #taken(bytes: Uint8Array): Promise<boolean> {
    const { sink } = this.#given;
    for (;;) {
      if (this.#stopped || this.#held) return false;
      const knownCount = sink.bell?.read() ?? 0;
      if (this.#commit(bytes)) return true;
      this.#say();
      const since = performance.now();
      // If all bells of the limiter are taken, it is asked again soon.
      await (sink.bell?.parkAsync(knownCount, PARK_MS) ?? wait(ASK_AGAIN_MS));
      this.gatedMs += performance.now() - since;
    }
  }

  /** Commits the rows that the limiter lets in at once. Returns whether those are all. */
  #commit(bytes: Uint8Array): boolean {
    const { ingest } = this.#given;
    const { counts } = ingest;
    const beginMs = nowMs();
    const [rows, size] = [counts.rows, counts.bytes];
    const taken = ingest.take(bytes);
    const all = { messages: Number(taken), rows: counts.rows - rows, bytes: counts.bytes - size };
    if (taken || all.rows > 0)
      this.spans?.write({ name: 'remote/commit', beginMs, endMs: nowMs(), ...all });
    return taken;
  }

  /** Waits until all acknowledgements are sent, or `ms` have passed. */
  async settled(ms: number): Promise<void> {
    const end = performance.now() + ms;
    while (
      this.#connected &&
      (this.#saying || this.#given.ingest.changed.size > 0) &&
      performance.now() < end
    ) {
      this.#say();
      await wait(1);
    }
  }

  /** Receiver-4: one write at a time. Changes meanwhile go with the next. */
  #say(): void {
    if (this.#saying || !this.#connected) return;
    this.#saying = true;
    void this.#sayAll().finally(() => {
      this.#saying = false;
    });
  }

  async #sayAll(): Promise<void> {
    const { link, keys, shard, ingest, epoch } = this.#given;
    const { changed, refusals } = ingest;
    while (
      this.#connected &&
      (changed.size > 0 || refusals.size > 0 || this.#done !== this.#trimmed)
    ) {
      const sessions = [...changed];
      const refused = [...refusals];
      changed.clear();
      refusals.clear();
      const connection = this.#connection;
      const fields: Record<string, string> = {};
      for (const session of sessions)
        fields[sessionName(session.id)] = this.#acknowledgement(session);
      for (const [id, why] of refused)
        fields[sessionName(id)] = writeAcknowledgement({
          epoch,
          row: 0,
          window: 0,
          nak: 0,
          refused: why,
        });
      const done = this.#done;
      const { over, number } = this.#watermark;
      try {
        // The calls are made at once, so they are one write and take effect in this order.
        const calls: Promise<unknown>[] = [];
        if (done !== null && done !== this.#trimmed)
          calls.push(
            link.trim(keys.stream(shard), done).then(() => {
              if (connection === this.#connection) this.#trimmed = done;
            }),
          );
        if (sessions.length + refused.length > 0) {
          calls.push(link.store(keys.acks, fields));
          for (const id of [...sessions.map(({ id }) => id), ...refused.map(([id]) => id)])
            calls.push(link.notify(keys.ack(id), fields[sessionName(id)] as string));
        }
        await Promise.all(calls);
        if (over) this.#watermark.report(number);
      } catch (error) {
        for (const session of sessions) changed.add(session);
        for (const [id, why] of refused) refusals.set(id, why);
        if (howOf(error) === 'denied') return this.#fail(error);
        if (connection !== this.#connection) continue;
        // Tries again later, without room or without a connection.
        await wait(PARK_MS);
        if (howOf(error) !== 'full') return;
      }
    }
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
    this.#wake();
  }

  #acknowledgement(session: Session): string {
    const { epoch } = this.#given;
    session.window = this.#windows.of(session);
    const { mark, window, nak } = session;
    return writeAcknowledgement({ epoch, row: mark.value, window, nak, refused: '' });
  }

  /** Shares the bytes on the way among `live` sessions, and sends the windows that change. */
  share(live: number): void {
    this.#windows.share(live);
    this.#say();
  }

  #sendBeat(): void {
    const { link, keys, epoch, shard } = this.#given;
    if (!this.#connected) return;
    // Receiver-5
    if (!this.#saying && this.#given.ingest.changed.size === 0)
      this.#watermark.report(this.#watermark.number);
    const { reported } = this.#watermark;
    if (reported) this.#count++;
    const text = writeHeartbeat({ epoch, beat: ++this.#beat, count: this.#count });
    link.store(keys.acks, { [heartbeatField(shard)]: text }).catch(() => {}); // the next one comes soon
    // This look begins after the store: a host that read the earlier count has sent its messages
    // before it.
    if (reported || !this.#watermark.begun) this.#readLength();
    this.#say();
  }
}
