/**
 * A server and links in this thread's memory, with faults on demand. Tests of the protocol use them
 * if no server is installed, or if they must say exactly when which call is lost.
 */
import {
  BEFORE_FIRST,
  type Entry,
  type Fields,
  type Link,
  LinkError,
  type LinkEvents,
  type ServerFacts,
} from '../../src/net/remote/link.ts';

interface Value {
  held: Uint8Array | Map<string, string> | Entry[];
  /** time of expiry, by the server's clock */
  until: number;
}
type Kind = 'bytes' | 'fields' | 'stream';

export class MemoryServer {
  /** whether it rejects calls that need memory */
  full = false;
  /** whether it drops notices */
  deaf = false;
  /** returns milliseconds. A test may replace it */
  clock: () => number = () => performance.now();
  readonly links = new Set<MemoryLink>();
  readonly #values = new Map<string, Value>();
  readonly #arrived = new Set<() => void>();
  #runs = 1;
  #ids = 0;
  #up = true;

  get run(): string {
    return `memory-${this.#runs}`;
  }
  get up(): boolean {
    return this.#up;
  }
  /**
   * Ends all connections, and allows none before restore(). Pending calls all have their effect or
   * all have none, by `effect`. Their replies are lost.
   */
  drop({ effect }: { effect: boolean }): void {
    this.#up = false;
    for (const link of this.links) link.cut(effect);
  }
  restore(): void {
    this.#up = true;
    for (const link of this.links) link.retry();
  }
  /**
   * Replaces the server by an empty one with another run id. Its connections end and may connect
   * again.
   */
  restart(): void {
    this.drop({ effect: false });
    this.flush();
    this.#runs++;
    this.#ids = 0;
    this.restore();
  }
  flush(): void {
    this.#values.clear();
  }

  /** Deletes a value. */
  free(key: string): void {
    this.#values.delete(key);
  }

  put(stream: string, message: Uint8Array): void {
    this.#room();
    const entries = this.#hold<Entry[]>(stream, 'stream', () => []);
    entries.push({ id: `${this.#ids++}-1`, bytes: Uint8Array.from(message) });
    for (const tell of [...this.#arrived]) tell();
  }
  /** Calls `tell` after each appended message. The returned function ends this. */
  arrivals(tell: () => void): () => void {
    this.#arrived.add(tell);
    return () => this.#arrived.delete(tell);
  }
  messages(stream: string, after: string, most: number): Entry[] {
    const entries = this.#find<Entry[]>(stream, 'stream') ?? [];
    const from = entries.findIndex(({ id }) => after === BEFORE_FIRST || order(id) > order(after));
    return from < 0 ? [] : entries.slice(from, from + most);
  }
  trim(stream: string, through: string): void {
    const entries = this.#find<Entry[]>(stream, 'stream') ?? [];
    const kept = entries.findIndex(({ id }) => order(id) > order(through));
    entries.splice(0, kept < 0 ? entries.length : kept);
  }
  tell(channel: string, text: string): void {
    if (!this.deaf) for (const link of this.links) link.hear(channel, text);
  }
  set(key: string, value: Uint8Array | Fields, lifeMs: number | undefined): void {
    this.#room();
    if (value instanceof Uint8Array)
      this.#values.set(key, { held: Uint8Array.from(value), until: Infinity });
    else {
      const fields = this.#hold<Map<string, string>>(key, 'fields', () => new Map());
      for (const [name, text] of Object.entries(value)) fields.set(name, text);
    }
    if (lifeMs !== undefined) this.#values.get(key)!.until = this.clock() + lifeMs;
  }
  get(key: string): Uint8Array | null {
    return this.#find<Uint8Array>(key, 'bytes')?.slice() ?? null;
  }
  fields(key: string, names: readonly string[]): (string | null)[] {
    const found = this.#find<Map<string, string>>(key, 'fields');
    return names.map((name) => found?.get(name) ?? null);
  }
  lease(key: string, value: string, lifeMs: number): string {
    const held = this.#find<Uint8Array>(key, 'bytes');
    const holder = held === null ? value : Buffer.from(held).toString();
    if (held === null) this.set(key, Buffer.from(value), lifeMs);
    else if (holder === value) this.#values.get(key)!.until = this.clock() + lifeMs;
    return holder;
  }

  #room(): void {
    if (this.full) throw new LinkError('full', 'the server in memory is full');
  }
  #find<T extends Value['held']>(key: string, kind: Kind): T | null {
    const value = this.#values.get(key);
    if (value === undefined) return null;
    if (value.until <= this.clock()) {
      this.#values.delete(key);
      return null;
    }
    const is = Array.isArray(value.held)
      ? 'stream'
      : value.held instanceof Map
        ? 'fields'
        : 'bytes';
    if (is !== kind) throw new LinkError('denied', `'${key}' is a value of another kind`);
    return value.held as T;
  }
  #hold<T extends Value['held']>(key: string, kind: Kind, make: () => T): T {
    const found = this.#find<T>(key, kind);
    if (found !== null) return found;
    const held = make();
    this.#values.set(key, { held, until: Infinity });
    return held;
  }
}

const order = (id: string): number => Number(id.split('-')[0]);

interface Call {
  act(): unknown;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/**
 * A link in which a call arrives at the server one turn of the event loop later. Its reply returns
 * one more turn later.
 */
export class MemoryLink implements Link {
  readonly #server: MemoryServer;
  #events: LinkEvents | null = null;
  #connected = false;
  #closed = false;
  #told = false;
  #first: { resolve(server: ServerFacts): void; reject(error: Error): void } | null = null;
  /** sent, and not yet at the server */
  #calls: Call[] = [];
  /** at the server, and their replies on the way */
  readonly #replies = new Set<Call>();
  readonly #waiting = new Set<(error: Error) => void>();

  constructor(server: MemoryServer) {
    this.#server = server;
  }

  connect(events: LinkEvents): Promise<ServerFacts> {
    this.#events = events;
    this.#server.links.add(this);
    return new Promise((resolve, reject) => {
      this.#first = { resolve, reject };
      this.retry();
    });
  }
  /** Connects again if the server is up. */
  retry(): void {
    setImmediate(() => {
      if (this.#closed || this.#connected) return;
      const { run, up } = this.#server;
      if (!up) return this.#tellLost();
      this.#connected = true;
      this.#told = false;
      this.#first?.resolve({ run, evicts: '' });
      this.#first = null;
      this.#events?.connected?.({ run, evicts: '' });
    });
  }
  /** Ends the connection. `effect` says whether calls on the way still have their effect. */
  cut(effect: boolean): void {
    if (!this.#connected) return;
    this.#connected = false;
    const calls = this.#calls.splice(0);
    if (effect) for (const call of calls) this.#act(call);
    this.#lose([...calls, ...this.#replies]);
    this.#tellLost();
  }
  hear(channel: string, text: string): void {
    if (this.#connected && this.#events?.channels?.includes(channel))
      this.#events.notice?.(channel, text);
  }

  append(stream: string, message: Uint8Array): Promise<void> {
    return this.#call(() => this.#server.put(stream, message));
  }
  async read(
    stream: string,
    after: string,
    most: number,
    waitMs: number,
  ): Promise<readonly Entry[]> {
    const find = () => this.#server.messages(stream, after, most);
    const found = await this.#call(find);
    if (found.length > 0 || waitMs <= 0) return found;
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer);
        ignore();
        this.#waiting.delete(lose);
      };
      const lose = (error: Error) => {
        end();
        reject(error);
      };
      const look = () => {
        const now = find();
        if (now.length === 0) return;
        end();
        resolve(now);
      };
      const timer = setTimeout(() => {
        end();
        resolve([]);
      }, waitMs);
      const ignore = this.#server.arrivals(look);
      this.#waiting.add(lose);
      // A message may have arrived while the reply of the first read was on the way.
      look();
    });
  }
  length(stream: string): Promise<number> {
    return this.#call(
      () => this.#server.messages(stream, BEFORE_FIRST, Number.POSITIVE_INFINITY).length,
    );
  }
  trim(stream: string, through: string): Promise<void> {
    return this.#call(() => this.#server.trim(stream, through));
  }
  notify(channel: string, text: string): Promise<void> {
    return this.#call(() => this.#server.tell(channel, text));
  }
  store(key: string, value: Uint8Array | Fields, lifeMs?: number): Promise<void> {
    return this.#call(() => this.#server.set(key, value, lifeMs));
  }
  load(key: string): Promise<Uint8Array | null>;
  load(key: string, fields: readonly string[]): Promise<readonly (string | null)[]>;
  load(
    key: string,
    fields?: readonly string[],
  ): Promise<Uint8Array | null | readonly (string | null)[]> {
    return this.#call(() =>
      fields === undefined ? this.#server.get(key) : this.#server.fields(key, fields),
    );
  }
  lease(key: string, value: string, lifeMs: number): Promise<string> {
    return this.#call(() => this.#server.lease(key, value, lifeMs));
  }
  async close(): Promise<void> {
    this.#closed = true;
    this.#connected = false;
    this.#server.links.delete(this);
    this.#lose([...this.#calls.splice(0), ...this.#replies]);
    this.#first?.reject(lostError());
  }

  #call<T>(act: () => T): Promise<T> {
    if (!this.#connected) return Promise.reject(lostError());
    return new Promise<T>((resolve, reject) => {
      const call: Call = { act, resolve: resolve as (value: unknown) => void, reject };
      this.#calls.push(call);
      setImmediate(() => {
        if (this.#calls[0] === call) this.#act(this.#calls.shift()!);
      });
    });
  }
  #act(call: Call): void {
    this.#replies.add(call);
    let reply = call.reject as (value: never) => void;
    let value: unknown;
    try {
      value = call.act();
      reply = call.resolve;
    } catch (error) {
      value = error;
    }
    setImmediate(() => {
      if (this.#replies.delete(call)) reply(value as never);
    });
  }
  #lose(calls: Iterable<Call>): void {
    for (const call of calls) call.reject(lostError());
    this.#replies.clear();
    for (const lose of [...this.#waiting]) lose(lostError());
  }
  #tellLost(): void {
    if (this.#told || this.#closed) return;
    this.#told = true;
    this.#events?.lost?.(lostError());
  }
}

const lostError = () => new LinkError('lost', 'the connection to the server in memory is lost');
