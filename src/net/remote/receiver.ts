/**
 * The learner's end of one stream, in a separate thread. It reads messages, commits their rows and
 * acknowledges them. The thread may end at any moment, because all of its lasting state is in the
 * marks. A thread that replaces it reads the stream from its beginning.
 *
 *   Receiver-1  The receiver has decided on a message when Ingest.take() has returned true for it.
 *       It trims only messages on which it has decided, and only by ids of the current connection.
 *   Receiver-2  After every connection, the receiver reads the stream from its first message. It
 *       also sends all acknowledgements and refusals again.
 *   Receiver-3  If the server has restarted, or another server answers, messages may have been
 *       lost. So the receiver asks every session for its unacknowledged rows. Before that, it
 *       decides on every message that was in the stream (Receiver-5).
 *   Receiver-4  The receiver sends an acknowledgement again until the server has confirmed it. It
 *       trims the acknowledged messages before it sends the acknowledgement, which permits a host
 *       to send more. So the server never has more bytes than hosts may have in transit.
 *   Receiver-5  A heartbeat counts if its `count` is larger than that of the one before. That
 *       happens only after the receiver has decided on, and acknowledged, every message that the
 *       stream had when a heartbeat last counted (stream-watermark.ts). If two heartbeats have
 *       counted since a host sent a message, and the message is not acknowledged, it is missing in
 *       the stream. This holds even if the stream never becomes empty.
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
  /** bytes of rows that all sessions of this stream together may have in transit */
  readonly transitBytes: number;
  /** whether the receiver begins paused */
  readonly held: boolean;
}

/**
 * Maximum number of messages that are read at once. They wait in this thread while the limiter does
 * not admit them.
 */
const MAX_MESSAGES = 4;
const WAIT_MS = 250;
const PARK_MS = 100;
const ASK_AGAIN_MS = 5;

/**
 * Returns how a call failed. Any other error than LinkError counts as `denied`, because trying
 * again would not help.
 */
const howOf = (error: unknown): LinkError['how'] =>
  error instanceof LinkError ? error.how : 'denied';

export class Receiver {
  /** spans of the receiver's work, for traces */
  spans: Spans | null = null;
  /** total ms in which the limiter admitted nothing */
  gatedMs = 0;
  readonly #given: ReceiverOptions;
  /** number of the current connection: the receiver ignores message ids of an earlier connection */
  #connection = 0;
  #connected = false;
  #server: string | null = null;
  /** whether every session must be asked for its rows (Receiver-3) */
  #asks = false;
  /** id of the last message on which the receiver has decided in this connection, or null */
  #done: string | null = null;
  #trimmed: string | null = null;
  #saying = false;
  #beat = 0;
  /** number of heartbeats that counted (Receiver-5) */
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

  /** Pauses the receiver. No row is added after this returns, until release(). */
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

  /** Receives until stop(), then resolves. Rejects with an error after which it cannot continue. */
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
    // If every message up to `#done` is trimmed, the next message is the first of the stream, so
    // the read begins at the stream's start. A read after `#done` could miss this message. Its id
    // may be smaller than `#done`, because the server's clock may have been set back.
    const from = this.#done === null || this.#done === this.#trimmed ? BEFORE_FIRST : this.#done;
    const [checkNumber, beginMs] = [this.#watermark.number, nowMs()];
    let entries: readonly Entry[];
    try {
      entries = await link.read(keys.stream(shard), from, MAX_MESSAGES, WAIT_MS);
    } catch (error) {
      if (howOf(error) === 'denied') throw error;
      // Without a connection, the next read would fail at once. So run() waits until the link has
      // called onConnected().
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
      // If the link has connected again meanwhile, the receiver reads this message again, and
      // Ingest counts it as a duplicate.
      if (connection !== this.#connection) return;
      this.#done = id;
      this.#watermark.decided();
      this.#ask();
    }
    if (entries.length < MAX_MESSAGES && from === BEFORE_FIRST) this.#watermark.ended(checkNumber);
    this.#ask();
    this.#say();
  }

  /** Requests the stream's length, which begins a new check of the watermark (Receiver-5). */
  #readLength(): void {
    const { link, keys, shard } = this.#given;
    const begun = this.#watermark.begin(link.length(keys.stream(shard)));
    // If the request fails, the next heartbeat or connection begins another check.
    begun.then(() => this.#ask()).catch((error) => howOf(error) === 'denied' && this.#fail(error));
  }

  /** Asks every session for its rows, if that is due and the current check is over (Receiver-3). */
  #ask(): void {
    if (!this.#asks || !this.#watermark.over) return;
    this.#asks = false;
    this.#given.ingest.askAll();
    this.#say();
  }

  /**
   * Commits a message, and waits while the limiter does not admit its rows. Returns false if the
   * receiver stops or pauses first. It then reads the message again later.
   */
  async #taken(bytes: Uint8Array): Promise<boolean> {
    const { sink } = this.#given;
    for (;;) {
      if (this.#stopped || this.#held) return false;
      const knownCount = sink.bell?.read() ?? 0;
      if (this.#commit(bytes)) return true;
      this.#say();
      const since = performance.now();
      // If other threads have all of the limiter's bells, tries again after ASK_AGAIN_MS.
      await (sink.bell?.parkAsync(knownCount, PARK_MS) ?? wait(ASK_AGAIN_MS));
      this.gatedMs += performance.now() - since;
    }
  }

  /**
   * Commits the rows that the limiter admits now. Returns whether the whole message is committed.
   */
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

  /**
   * Sends acknowledgements (Receiver-4). If an earlier call is still sending, that call sends the
   * later changes too.
   */
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
        // Sends these calls without waiting for their replies. They take effect in this order,
        // because all calls of a link do.
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
        // If the server is full, tries again after a pause. If the connection is lost, returns.
        // onConnected() then calls #say() again.
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

  /**
   * Divides `transitBytes` among the live sessions, of which there are `live`, and sends the
   * windows that change.
   */
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
    // Ignores errors, because the next heartbeat follows in a second.
    link.store(keys.acks, { [heartbeatField(shard)]: text }).catch(() => {});
    // Begins the new check after the store. If a host has read the previous count, its messages of
    // that time were in the stream before this store. So the check includes them.
    if (reported || !this.#watermark.begun) this.#readLength();
    this.#say();
  }
}
