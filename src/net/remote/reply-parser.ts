/**
 * Parses replies of Redis and Valkey (RESP2) as their bytes arrive, in chunks that may end anywhere
 * in a reply. The parser copies the bytes of a value once, into their final memory.
 *
 * The parser trusts nothing that arrives: lengths have limits, and memory grows with the bytes that
 * arrived, not with the announced length. If a value is unwanted or too long, the parser skips the
 * value and returns an empty one. So it can still read the values that follow.
 */

/** An error reply, with the server's text. */
export class Refused {
  readonly message: string;
  constructor(message: string) {
    this.message = message;
  }
}
export type Reply = string | number | null | Uint8Array | Refused | Reply[];

/** The protocol's own limits for the bytes of a value and the values in one call. */
const MAX_BYTES = 512 * 2 ** 20;
const MAX_VALUES = 2 ** 20;
const MAX_LINE = 2 ** 16;
/** Maximum depth of nested arrays. The deepest reply that Hotslot reads has five levels. */
const MAX_DEPTH = 8;
/** Bytes that are allocated at once for an announced value. More are allocated when they arrive. */
const FIRST_ROOM = 2 ** 20;

const nothing = new Uint8Array();

interface Level {
  readonly values: Reply[];
  left: number;
}

export interface ParserOptions {
  /**
   * Returns memory of any length for the bytes of the value at this depth and index, null for new
   * memory, or 'none' if the value is unwanted.
   */
  readonly room: (depth: number, index: number) => Uint8Array | null | 'none';
  /** maximum bytes of a value that is kept */
  readonly most: number;
  /** called when the memory of a value was too small and was replaced */
  readonly grown: (before: Uint8Array, after: Uint8Array) => void;
  readonly done: (reply: Reply) => void;
}

export class ReplyParser {
  readonly #given: ParserOptions;
  readonly #levels: Level[] = [];
  #line = '';
  /**
   * the value that is arriving: its memory, its announced length, and how many of its bytes have
   * not arrived yet. A line end follows these bytes
   */
  #room: Uint8Array = new Uint8Array();
  #length = 0;
  #left = 0;
  #inBulk = false;
  /** whether the bytes of the value that is arriving are skipped */
  #skips = false;

  constructor(given: ParserOptions) {
    this.#given = given;
  }

  /**
   * Parses bytes that arrived, and keeps no reference to them. Throws if the bytes are not a reply,
   * because the bytes after them would be unreadable.
   */
  feed(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.#left > 0) {
        at = this.#fill(chunk, at);
        continue;
      }
      const end = chunk.indexOf(10, at);
      this.#line += chunk.toString('latin1', at, end < 0 ? chunk.length : end);
      if (this.#line.length > MAX_LINE) throw new Error(`a line of more than ${MAX_LINE} bytes`);
      if (end < 0) return;
      at = end + 1;
      const line = this.#line;
      this.#line = '';
      if (!line.endsWith('\r')) throw new Error('a line that does not end with CRLF');
      this.#begin(line.slice(0, -1));
    }
  }

  #fill(chunk: Buffer, at: number): number {
    const some = Math.min(this.#left, chunk.length - at);
    if (this.#skips) {
      this.#left -= some;
      return at + some;
    }
    const from = this.#length - this.#left;
    if (from + some > this.#room.length) this.#grow(from, from + some);
    this.#room.set(chunk.subarray(at, at + some), from);
    this.#left -= some;
    return at + some;
  }

  #grow(used: number, needed: number): void {
    const room = new Uint8Array(
      Math.max(needed, Math.min(this.#given.most, Math.max(2 * this.#room.length, FIRST_ROOM))),
    );
    room.set(this.#room.subarray(0, used));
    this.#given.grown(this.#room, room);
    this.#room = room;
  }

  #begin(line: string): void {
    if (this.#inBulk) {
      if (line !== '') throw new Error('a value that is longer than was announced');
      this.#inBulk = false;
      // Creates a new view for each value. So a caller can distinguish it from an earlier value,
      // even if both were in the same memory.
      this.#value(this.#room.subarray(0, this.#skips ? 0 : this.#length));
      return;
    }
    const rest = line.slice(1);
    if (line[0] === '$') this.#bulk(rest);
    else if (line[0] === '*') this.#array(rest);
    else if (line[0] === ':') this.#value(whole(rest, Number.MAX_SAFE_INTEGER));
    else if (line[0] === '+') this.#value(rest);
    else if (line[0] === '-') this.#value(new Refused(rest));
    else throw new Error('an unknown type byte');
  }

  #bulk(text: string): void {
    if (text === '-1') {
      this.#value(null);
      return;
    }
    const length = whole(text, MAX_BYTES);
    const level = this.#levels.at(-1);
    const room = this.#given.room(this.#levels.length, level?.values.length ?? 0);
    this.#length = length;
    this.#left = length;
    this.#skips = room === 'none' || length > this.#given.most;
    this.#inBulk = true;
    if (room instanceof Uint8Array) this.#room = room;
    else this.#room = this.#skips ? nothing : new Uint8Array(Math.min(length, FIRST_ROOM));
  }

  #array(text: string): void {
    const left = text === '-1' ? -1 : whole(text, MAX_VALUES);
    if (left <= 0) this.#value(left < 0 ? null : []);
    else if (this.#levels.length < MAX_DEPTH) this.#levels.push({ values: [], left });
    else throw new Error(`more than ${MAX_DEPTH} nested arrays`);
  }

  #value(given: Reply): void {
    let value = given;
    for (;;) {
      const level = this.#levels.at(-1);
      if (level === undefined) {
        this.#given.done(value);
        return;
      }
      level.values.push(value);
      level.left--;
      if (level.left > 0) return;
      this.#levels.pop();
      value = level.values;
    }
  }
}

function whole(text: string, most: number): number {
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value <= most)) throw new Error(`a length or number of '${text.slice(0, 40)}'`);
  return value;
}
