/**
 * The process of a storm's world, as the director sees it. This class starts, asks, watches and
 * kills the process, and starts it again.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { Wrong } from './oracle.ts';
import type { FromWorld, ToWorld, WorldOptions } from './words.ts';

/**
 * A world hangs if its progress does not change for this time, or if it does not do what it was
 * asked to.
 */
const PATIENCE_MS = 60_000;
/** The exit code of a process that must be started again. */
const AGAIN = 75;

type Told = Omit<Extract<ToWorld, { fault: unknown }>, 'id'>;

export interface WorldProcessOptions {
  readonly options: WorldOptions;
  readonly env: NodeJS.ProcessEnv;
  readonly wrong: Wrong;
}

export class WorldProcess {
  /** sums over all lives; the largest value for resources */
  readonly facts: Record<string, number> = {};
  /** the monitor's address, or null while there is no monitor */
  monitor: string | null = null;
  readonly #given: WorldProcessOptions;
  #child: ChildProcess | null = null;
  #errors = '';
  #ending = false;
  #ids = 0;
  #waiting: { met: () => boolean; resolve: () => void }[] = [];
  readonly #done = new Map<number, string | null>();
  readonly #saved: Partial<Record<string, number>> = {};
  #lives = 0;
  #beat = { stage: 'begins', progress: '', since: performance.now(), waits: '' };
  readonly #watch = setInterval(() => this.#look(), 1000);

  constructor(given: WorldProcessOptions) {
    this.#given = given;
  }

  start(): void {
    const { options, env } = this.#given;
    const child = fork(new URL('./world.js', import.meta.url), [JSON.stringify(options)], {
      env,
      execArgv: ['--expose-gc', '--enable-source-maps'],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'] as const,
    } as never);
    this.#child = child;
    this.#ending = false;
    this.#errors = '';
    this.#moved('begins');
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      if (options.verbose) process.stderr.write(text);
      this.#errors = (this.#errors + text).slice(-4000);
    });
    child.on('message', (said: FromWorld) => this.#hear(said));
    child.once('exit', (code, signal) => {
      this.monitor = null;
      if (this.#child !== child) return;
      this.#child = null;
      if (code === AGAIN) this.start();
      else if (!this.#ending)
        this.#given.wrong(`the process ended by itself with ${code ?? signal}: ${this.#errors}`);
      this.#settle();
    });
  }

  /** Resolves when the world runs, or when its process has ended. */
  up(): Promise<void> {
    return this.#until(() => this.monitor !== null);
  }
  /** Asks for a fault. Returns its target, or null if there was none. */
  async told(fault: Told): Promise<string | null> {
    const id = ++this.#ids;
    this.#send({ ...fault, id });
    await this.#until(() => this.#done.has(id));
    const to = this.#done.get(id) ?? null;
    this.#done.delete(id);
    return to;
  }
  async newLife(): Promise<void> {
    const lives = this.#lives;
    this.monitor = null;
    this.#send({ end: 'life' });
    await this.#until(() => this.#lives > lives);
  }
  /** Ends the process after all its counts and checks. */
  async end(): Promise<void> {
    this.#ending = true;
    this.#send({ end: 'process' });
    await this.#until(() => false);
  }
  async kill(): Promise<void> {
    await this.#kill();
    this.start();
  }
  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
    this.#beat.since = performance.now();
  }
  async close(): Promise<void> {
    clearInterval(this.#watch);
    await this.#kill();
  }
  /**
   * Called if the monitor did not answer. That is an error unless the world is closing, as its next
   * beat shows.
   */
  async answered(monitor: string): Promise<null> {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    if (this.monitor === monitor && this.#child !== null)
      this.#given.wrong('the monitor did not tell its metrics');
    return null;
  }
  now(): string {
    return `${this.#lives} lives over, ${this.#beat.stage} with ${this.#beat.progress}, waits for: ${this.#beat.waits}`;
  }

  async #kill(): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    this.#ending = true;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }
  #send(told: ToWorld): void {
    this.#child?.send(told, () => {});
  }
  #hear(said: FromWorld): void {
    const { wrong } = this.#given;
    if ('wrong' in said) wrong(said.wrong);
    else if ('done' in said) this.#done.set(said.done, said.to);
    else if ('up' in said) this.monitor = said.monitor;
    else if ('saved' in said) this.#saved[said.saved] = said.tick;
    else if ('restored' in said) {
      const least = this.#saved[said.restored] ?? -1;
      if (said.tick < least)
        wrong(`${said.restored} went on behind tick ${said.tick}, ${least} was saved`);
    } else if ('over' in said) {
      this.#lives++;
      this.monitor = null;
      for (const [name, count] of Object.entries(said.facts)) {
        const held = /^(threads|files|bytes|handles|pinned)$/.test(name);
        this.facts[name] = held
          ? Math.max(this.facts[name] ?? 0, count)
          : (this.facts[name] ?? 0) + count;
      }
      this.facts.lives = this.#lives;
    } else {
      if (said.beat !== 'runs') this.monitor = null;
      const progress = JSON.stringify(said.progress);
      if (progress !== this.#beat.progress || said.beat !== this.#beat.stage)
        this.#moved(said.beat, progress);
      this.#beat.waits = said.waits;
    }
    this.#settle();
  }
  #moved(stage: string, progress = ''): void {
    this.#beat = { stage, progress, since: performance.now(), waits: '' };
  }
  /**
   * Kills a world without progress, and reports what it was waiting for. So every wait of the storm
   * ends.
   */
  #look(): void {
    if (this.#child === null || performance.now() - this.#beat.since < PATIENCE_MS) return;
    const { stage, progress, waits } = this.#beat;
    this.#given.wrong(
      `it hangs: for ${PATIENCE_MS / 1000} s it ${stage}, ${progress}; waits for: ${waits}; ${this.#errors}`,
    );
    void this.#kill();
  }
  #until(met: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push({ met, resolve });
      this.#settle();
    });
  }
  /**
   * Resolves the waits whose condition is met. If the process has ended, it resolves all of them.
   */
  #settle(): void {
    this.#waiting = this.#waiting.filter(({ met, resolve }) => {
      const over = this.#child === null || met();
      if (over) resolve();
      return !over;
    });
  }
}
