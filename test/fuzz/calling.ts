/**
 * Makes calls in a place and judges each result. A call must return an answer, or throw one of
 * Hotslot's errors and change nothing.
 */
import type { Kind, Place } from './target.ts';
import { type Call, textOf } from './values.ts';

export interface Counts {
  calls: number;
  answers: number;
  refusals: number;
  /** errors that came from the caller's own code, also while making the arguments */
  told: number;
  /** calls that did not end within the patience */
  waits: number;
}

/** How a call failed. `text` is one line. */
export interface Fault {
  readonly text: string;
}

const LATE = Symbol('late');

/** Errors that were thrown where nobody could catch them, during these calls. */
const unheard: unknown[] = [];
export function hearAll(): void {
  process.on('uncaughtException', (error) => unheard.push(error));
  process.on('unhandledRejection', (error) => unheard.push(error));
  process.on('warning', () => {});
}

const firstLine = (error: unknown): string => {
  const { name, message, stack = '' } = Object(error) as Error;
  const at = /\n\s+at .*?(dist\/(?:src|actors)\/[^)\n]*)/.exec(String(stack))?.[1] ?? '';
  return `${name}: ${String(message).split('\n')[0]?.slice(0, 300)}${at && ` (${at})`}`;
};

/** Returns a call's arguments, or null if making them throws. */
function argumentsIn({ values }: Call, { scope }: Place): unknown[] | null {
  try {
    const make = new Function(...Object.keys(scope), `return ${textOf({ list: values })};`);
    return make(...Object.values(scope)) as unknown[];
  } catch {
    return null;
  }
}

export class Calling {
  readonly counts: Counts = { calls: 0, answers: 0, refusals: 0, told: 0, waits: 0 };
  /** for each form: how often it was called, and how often it returned an answer */
  readonly forms = new Map<string, [calls: number, answers: number]>();
  /** the code of the last refusal */
  refusedWith = '';
  readonly #kind: Kind;
  #place: Place | null = null;
  readonly #functions = new Map<string, (scope: unknown, values: unknown[]) => unknown>();
  #inPlace = 0;

  constructor(kind: Kind) {
    this.#kind = kind;
  }

  /**
   * Closes the place, so that the next call is made in a fresh one. Returns what closing throws.
   */
  async fresh(): Promise<Fault | null> {
    const place = this.#place;
    this.#place = null;
    this.#inPlace = 0;
    if (place === null) return null;
    try {
      await place.close();
    } catch (error) {
      return { text: `closing everything: ${firstLine(error)}` };
    }
    return null;
  }

  /** Number of calls that were already made in the current place. */
  get before(): number {
    return this.#inPlace;
  }

  async call(call: Call): Promise<Fault | null> {
    if (this.#inPlace >= this.#kind.inOnePlace) {
      const fault = await this.fresh();
      if (fault) return fault;
    }
    if (this.#place === null) {
      this.#place = await this.#kind.open();
      this.#place.keep?.();
    }
    this.#inPlace++;
    this.counts.calls++;
    const place = this.#place;
    const count = this.forms.get(call.form) ?? [0, 0];
    count[0]++;
    this.forms.set(call.form, count);
    const values = argumentsIn(call, place);
    if (values === null) {
      this.counts.told++;
      return null;
    }
    let answer: unknown;
    try {
      answer = this.#made(call, place)(values);
      if (typeof (answer as { then?: unknown } | null | undefined)?.then === 'function') {
        let timer: NodeJS.Timeout | undefined;
        const late = new Promise((resolve) => {
          timer = setTimeout(resolve, this.#kind.patience, LATE);
        });
        answer = await Promise.race([answer as Promise<unknown>, late]);
        clearTimeout(timer);
      }
    } catch (error) {
      return this.#refused(call, error, place);
    }
    if (answer === LATE) {
      this.counts.waits++;
      // The unfinished call may still change something, so the place is left.
      await this.#leave();
      return this.#heard();
    }
    this.counts.answers++;
    count[1]++;
    const wrong = place.judge?.(answer);
    if (wrong) return { text: wrong };
    await place.tidy?.(answer);
    place.keep?.();
    return this.#heard();
  }

  /** Compiles the form to a function of its arguments. */
  #made({ form, values }: Call, { scope }: Place): (values: unknown[]) => unknown {
    let at = 0;
    const text = form.replace(/\$\*?/g, (place) =>
      place === '$*' ? `...$.slice(${at})` : `$[${at++}]`,
    );
    const key = `${text} ${values.length}`;
    let made = this.#functions.get(key);
    if (made === undefined) {
      made = new Function(
        'scope',
        '$',
        `const { ${Object.keys(scope).join(', ')} } = scope; return ${text};`,
      ) as never;
      this.#functions.set(key, made as never);
    }
    return (given) => (made as (scope: unknown, values: unknown[]) => unknown)(scope, given);
  }

  #refused(call: Call, error: unknown, place: Place): Fault | null {
    const { code } = Object(error) as { code?: unknown };
    if (code === 'TOLD' || place.others?.(call, String((Object(error) as Error).message)))
      this.counts.told++;
    else if (
      error instanceof Error &&
      typeof code === 'string' &&
      code.startsWith('ERR_HOTSLOT_')
    ) {
      this.counts.refusals++;
      this.refusedWith = code;
    } else if (
      error instanceof TypeError &&
      /^(Cannot read|Cannot write to) private member/.test(error.message)
    ) {
      // The engine itself refuses an object without Hotslot's private members: a proxy, or an
      // object whose prototype is one of Hotslot's.
      this.counts.refusals++;
    } else return { text: firstLine(error) };
    // A pipeline that failed has changed, so its new state is kept instead of compared.
    if (code === 'ERR_HOTSLOT_PIPELINE') {
      place.keep?.();
      return this.#heard();
    }
    const differs = place.differs?.(call) ?? null;
    return differs === null
      ? this.#heard()
      : { text: `refused (${firstLine(error)}), and ${differs}` };
  }

  #heard(): Fault | null {
    const [error] = unheard
      .splice(0)
      .filter((each) => (Object(each) as { code?: unknown }).code !== 'TOLD');
    return error === undefined
      ? null
      : { text: `thrown where nobody hears it: ${firstLine(error)}` };
  }

  async #leave(): Promise<void> {
    const place = this.#place;
    this.#place = null;
    this.#inPlace = 0;
    const over = new Promise((resolve) => setTimeout(resolve, 2000).unref());
    await Promise.race([place?.close().catch(() => {}), over]);
  }
}
