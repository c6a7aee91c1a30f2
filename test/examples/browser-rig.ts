/**
 * Controls a headless Chromium through a pipe (the DevTools protocol), with a temporary profile.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';

export const CHROMIUM = '/usr/bin/chromium';
/**
 * Returns the options that Chromium needs to run as root and without a screen, and to keep its
 * files in the folder.
 */
export const headless = (folder: string): string[] => [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-breakpad',
  `--user-data-dir=${folder}/profile`,
];
/** Returns an environment that makes the folder the user's home, so that Chromium writes there. */
export const homeIn = (folder: string): NodeJS.ProcessEnv => ({
  ...process.env,
  HOME: folder,
  XDG_CONFIG_HOME: folder,
});

interface Reply {
  id?: number;
  /** the event's name, if the message is an event */
  method?: string;
  result?: {
    result?: { value?: unknown };
    exceptionDetails?: { text: string };
    sessionId?: string;
    targetId?: string;
  };
  error?: { message: string };
}

export class Page {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<
    number,
    { resolve: (reply: Reply) => void; reject: (error: Error) => void }
  >();
  readonly #ended: Promise<unknown>;
  #count = 0;
  #session: string | undefined;
  #loaded = () => {};

  private constructor(folder: string) {
    this.#child = spawn(CHROMIUM, [...headless(folder), '--remote-debugging-pipe', 'about:blank'], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
      env: homeIn(folder),
    });
    this.#ended = new Promise((resolve) => this.#child.once('close', resolve));
    let text = '';
    (this.#child.stdio[4] as Readable).setEncoding('utf8').on('data', (more: string) => {
      const messages = (text + more).split('\0');
      text = messages.pop() as string;
      for (const message of messages) this.#hear(JSON.parse(message) as Reply);
    });
    this.#child.once('exit', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error('chromium ended'));
    });
  }

  static async open(folder: string, url: string): Promise<Page> {
    const page = new Page(folder);
    const { targetId } = (await page.#ask('Target.createTarget', { url: 'about:blank' })).result!;
    const { sessionId } = (await page.#ask('Target.attachToTarget', { targetId, flatten: true }))
      .result!;
    page.#session = sessionId;
    const loaded = new Promise<void>((resolve) => {
      page.#loaded = resolve;
    });
    await page.#ask('Page.enable', {});
    await page.#ask('Page.navigate', { url });
    await loaded;
    return page;
  }

  /** Evaluates an expression, awaits it if it is a promise, and returns the value. */
  async evaluate(expression: string): Promise<unknown> {
    const { result } = await this.#ask('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    if (result?.exceptionDetails) throw new Error(`${expression}: ${result.exceptionDetails.text}`);
    return result?.result?.value;
  }

  /** Waits until an element's text matches, and returns the text. */
  text(id: string, pattern: RegExp): Promise<unknown> {
    return this.evaluate(`new Promise((resolve) => {
      const look = () => {
        const text = document.getElementById('${id}')?.textContent ?? '';
        if (!${pattern}.test(text)) return;
        seen.disconnect();
        resolve(text);
      };
      const seen = new MutationObserver(look);
      seen.observe(document, { childList: true, subtree: true, characterData: true });
      look();
    })`);
  }

  /** Presses and releases a key. */
  async press(key: string): Promise<void> {
    for (const type of ['keyDown', 'keyUp'])
      await this.#ask('Input.dispatchKeyEvent', { type, key });
  }

  async close(): Promise<void> {
    this.#child.kill('SIGTERM');
    await this.#ended;
  }

  #ask(method: string, params: object): Promise<Reply> {
    const id = ++this.#count;
    const session = this.#session === undefined ? {} : { sessionId: this.#session };
    const answered = new Promise<Reply>((resolve, reject) =>
      this.#waiting.set(id, { resolve, reject }),
    );
    (this.#child.stdio[3] as Writable).write(
      `${JSON.stringify({ id, method, params, ...session })}\0`,
    );
    return answered;
  }

  #hear(reply: Reply): void {
    if (reply.method === 'Page.loadEventFired') this.#loaded();
    const asked = this.#waiting.get(reply.id ?? 0);
    if (!asked) return;
    this.#waiting.delete(reply.id as number);
    if (reply.error) asked.reject(new Error(reply.error.message));
    else asked.resolve(reply);
  }
}
