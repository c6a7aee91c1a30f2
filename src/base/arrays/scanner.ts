/**
 * Reads the text of a file's header from left to right. It uses no regular expressions, because
 * these can be slow for long input.
 */
import { describeValue } from '../checks.ts';
import { malformed } from './tensors.ts';

const BLANKS = ' \t\n\r';

export class Scanner {
  readonly #what: string;
  readonly #text: string;
  #at = 0;

  /** `what` is the prefix of every error's text. */
  constructor(what: string, text: string) {
    this.#what = what;
    this.#text = text;
  }

  /** The next character, or '' at the end. */
  get next(): string {
    return this.#text.charAt(this.#at);
  }

  /** Skips blanks, then `character` if it is next. Returns whether it was next. */
  took(character: string): boolean {
    this.blanks();
    if (this.next !== character) return false;
    this.#at++;
    return true;
  }

  expect(character: string): void {
    if (!this.took(character)) this.fail(`${describeValue(character)} is missing`);
  }

  blanks(): void {
    this.whileIn(BLANKS);
  }

  /** Reads and returns all characters up to the first that is not in `set`. */
  whileIn(set: string): string {
    const from = this.#at;
    while (this.#at < this.#text.length && set.includes(this.next)) this.#at++;
    return this.#text.slice(from, this.#at);
  }

  /**
   * Reads a quoted text, and returns it with its quotes and backslashes. A quote after a backslash
   * does not end the text.
   */
  quoted(quote: string): string {
    const from = this.#at;
    if (!this.took(quote)) this.fail('a quoted text is missing');
    for (; this.next !== quote; this.#at++) {
      if (this.next === '') this.fail('a text is not terminated');
      if (this.next === '\\') this.#at++;
    }
    this.#at++;
    return this.#text.slice(from, this.#at);
  }

  /** Skips `word` if it is next. Returns whether it was next. */
  word(word: string): boolean {
    if (!this.#text.startsWith(word, this.#at)) return false;
    this.#at += word.length;
    return true;
  }

  end(): void {
    this.blanks();
    if (this.next !== '') this.fail(`${describeValue(this.next)} follows its end`);
  }

  fail(why: string): never {
    throw malformed(this.#what, `${why} at character ${this.#at} of the header`);
  }
}
