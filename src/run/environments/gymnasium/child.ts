/**
 * Runs the Python process that steps environments. Requests and answers go through two pipes. A
 * thread that waits for the process wakes every 50 ms, so that the thread can be ended. If the
 * process ends or does not answer in time, the error contains its last output.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { answered } from '../../../base/addon.ts';
import { nowMs } from '../../../base/clock.ts';
import { closedError, unavailableError } from '../../../base/errors.ts';
import { packageRoot } from '../../../base/package-root.ts';
import { type ChildHandle, systemProcesses } from '../../../base/system-addon.ts';
import type { Greeting } from './frames.ts';
import type { GymnasiumPlan } from './options.ts';

const SCRIPT = `${packageRoot(import.meta.url)}src/run/environments/gymnasium/hotslot_gymnasium.py`;
/**
 * Most milliseconds of one wait for the pipes. After each wait, the thread checks the timeout and
 * whether the process lives.
 */
const SLICE_MS = 50;
/**
 * Milliseconds that the process has to close its environments, and to print its stack after a
 * timeout.
 */
const ENDING_MS = 5000;
const EXIT_OUTPUT_MS = 2000;
/**
 * An error quotes at most the last MAX_QUOTED_BYTES of the process's output. The file that keeps
 * the output is emptied when a check finds more than MAX_KEPT_BYTES in it.
 */
const MAX_QUOTED_BYTES = 4096;
const MAX_KEPT_BYTES = 2 ** 20;
const LOOK_EVERY = 4096;
const PIPE_BYTES = 2 ** 20;

interface Started {
  child: Child;
  greeting: Greeting;
  ends: Uint8Array;
}

export class Child {
  readonly #process: ChildProcess;
  readonly #handle: ChildHandle;
  readonly #plan: GymnasiumPlan;
  /** unnamed file for the process's output, null if the output goes to our own standard error */
  readonly #printed: number | null;
  readonly #exit: Promise<number | null>;
  #exited = false;
  #open = true;
  #failed = false;
  #exchanges = 0;

  private constructor(plan: GymnasiumPlan) {
    const ends = new Int32Array(2);
    this.#plan = plan;
    this.#handle = systemProcesses().openChild(PIPE_BYTES, ends);
    this.#printed = plan.output === 'shown' ? null : unnamedFile();
    const prints = this.#printed ?? 2;
    // The process's standard input closes when this thread ends, however the thread ends. The
    // process then ends itself.
    this.#process = spawn(plan.python, [SCRIPT], {
      stdio: ['pipe', prints, prints, ends[0]!, ends[1]!],
    });
    this.#exit = new Promise((done, fail) => {
      this.#process.once('error', fail);
      this.#process.once('exit', (code) => done(code));
    });
    this.#exit.then(
      () => this.#onExit(),
      () => this.#onExit(),
    );
    systemProcesses().childStarted(this.#handle, this.#process.pid ?? 0);
    // Lets Node.js exit while the process runs, even if the caller never closes this child.
    this.#process.unref();
    (this.#process.stdin as unknown as { unref(): void } | null)?.unref();
  }

  /** Starts a process. If it rejects, the error text says what the user can do. */
  static async start(plan: GymnasiumPlan, environments: number, kwargs: unknown): Promise<Started> {
    const child = new Child(plan);
    const { id, entry, vectorization, path } = plan;
    try {
      const end = nowMs() + plan.timeoutMs;
      const request = new TextEncoder().encode(
        JSON.stringify({ id, entry, vectorization, path, kwargs, environments }),
      );
      // Sends the options through the pipe, because an argument of a process has at most 128 KiB.
      await child.#send(new Uint8Array(Uint32Array.of(request.length).buffer), end);
      await child.#send(request, end);
      const [text, more] = new Uint32Array((await child.#receive(8, end)).buffer);
      const reply = JSON.parse(new TextDecoder().decode(await child.#receive(text as number, end)));
      if (reply.refused !== undefined) throw unavailableError(`${plan.name}: ${reply.refused}`);
      return {
        child,
        greeting: reply as Greeting,
        ends: await child.#receive(more as number, end),
      };
    } catch (error) {
      child.#failed = true;
      await child.close();
      throw error;
    }
  }

  /** Sends bytes. It ignores a closed pipe, because the following #receive() throws the reason. */
  async #send(bytes: Uint8Array, end: number): Promise<void> {
    await this.#moved(bytes, systemProcesses().writeChild, end);
  }

  async #receive(length: number, end: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(length);
    if (!(await this.#moved(bytes, systemProcesses().readChild, end))) throw await this.#early();
    return bytes;
  }

  /**
   * Sends or receives bytes without blocking this thread. Resolves with false if the process has
   * closed its end.
   */
  async #moved(
    bytes: Uint8Array,
    move: ReturnType<typeof systemProcesses>['readChild'],
    end: number,
  ): Promise<boolean> {
    for (let done = 0, pause = 1; done < bytes.length; pause = Math.min(2 * pause, SLICE_MS)) {
      const some = answered(move(this.#handle, bytes, done, 0));
      if (some < 0) return false;
      done += some;
      if (done === bytes.length) break;
      if (nowMs() > end) throw this.#silent('making its environments');
      if (some === 0) await wait(pause);
    }
    return true;
  }

  /** Returns the error for a process that closed its pipes before its environments were made. */
  async #early(): Promise<Error> {
    const { name, python } = this.#plan;
    const code = await this.#ended(ENDING_MS).catch((error) => {
      throw unavailableError(
        `${name}: ${python} could not be started: ${(error as Error).message}; the option python gives another one`,
      );
    });
    const printed = this.#outputEnd();
    return new Error(
      code === undefined
        ? `${name}: its Python closed the pipes to Hotslot, but did not exit${lastOutput(printed)}`
        : `${name}: its Python exited before its environments were ready, with exit code ${code}${lastOutput(printed)}`,
    );
  }

  /**
   * Sends a request and waits for its answer. Throws if the process has ended, or does not answer
   * within the timeout.
   */
  exchange(request: Uint8Array, answer: Uint8Array): void {
    const addon = systemProcesses();
    const end = nowMs() + this.#plan.timeoutMs;
    this.#move(request, addon.writeChild, end);
    this.#move(answer, addon.readChild, end);
    if (++this.#exchanges % LOOK_EVERY === 0) this.#truncateOutput();
  }

  /** Reads bytes that follow an answer. */
  read(bytes: Uint8Array): Uint8Array {
    this.#move(bytes, systemProcesses().readChild, nowMs() + this.#plan.timeoutMs);
    return bytes;
  }

  #move(
    bytes: Uint8Array,
    move: ReturnType<typeof systemProcesses>['readChild'],
    end: number,
  ): void {
    if (!this.#open || this.#failed) throw closedError(`the Python of ${this.#plan.name}`);
    try {
      for (let done = 0; done < bytes.length; ) {
        const some = answered(move(this.#handle, bytes, done, SLICE_MS));
        if (some < 0) throw this.#died();
        if (some === 0 && this.#isDead()) throw this.#died();
        if (some === 0 && nowMs() > end) throw this.#silent('a step');
        done += some;
      }
    } catch (error) {
      this.#failed = true;
      throw error;
    }
  }

  /**
   * Ends the process. The process closes its environments first, and is killed if this takes too
   * long. Rejects if closing the environments failed.
   */
  async close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    systemProcesses().endWriting(this.#handle);
    const ended = () => this.#ended(ENDING_MS).catch(() => null);
    const code = await ended();
    if (code === undefined) {
      this.#process.kill('SIGKILL');
      await ended();
    }
    const printed = this.#outputEnd();
    systemProcesses().closeChild(this.#handle);
    this.#process.stdin?.destroy();
    if (this.#printed !== null) closeSync(this.#printed);
    if (this.#failed || code === 0 || code === undefined) return;
    throw new Error(
      `${this.#plan.name}: closing its environments failed, with exit code ${code}${lastOutput(printed)}`,
    );
  }

  /**
   * Resolves with the exit code, or with undefined if the process still runs after `milliseconds`.
   * Rejects if the process could not be started. The timer keeps Node.js running until then, which
   * the process itself does not.
   */
  async #ended(milliseconds: number): Promise<number | null | undefined> {
    const stop = new AbortController();
    const late = wait(milliseconds, undefined, { signal: stop.signal }).catch(() => undefined);
    try {
      return await Promise.race([this.#exit, late]);
    } finally {
      stop.abort();
    }
  }

  #onExit(): void {
    this.#exited = true;
    systemProcesses().childGone(this.#handle);
  }

  /**
   * Returns whether the process has ended. A process that has ended stays a zombie until this
   * thread's event loop reads its exit code. So this function reads the process's state from the
   * system.
   */
  #isDead(): boolean {
    if (this.#exited) return true;
    try {
      const status = readFileSync(`/proc/${this.#process.pid}/stat`, 'latin1');
      return /^[ZX]/.test(status.slice(status.lastIndexOf(')') + 2));
    } catch {
      return true;
    }
  }

  #died(): Error {
    return new Error(
      `${this.#plan.name}: its Python (process ${this.#process.pid}) ended${lastOutput(this.#outputEnd())}`,
    );
  }

  /**
   * Makes the process print its stack, ends it, and returns the error. `doing` is the work that
   * took too long.
   */
  #silent(doing: string): Error {
    const { pid } = this.#process;
    const { name, timeoutMs } = this.#plan;
    this.#process.kill('SIGABRT');
    const asleep = new Int32Array(new SharedArrayBuffer(4));
    for (const end = nowMs() + EXIT_OUTPUT_MS; !this.#isDead() && nowMs() < end; )
      Atomics.wait(asleep, 0, 0, 5);
    if (!this.#isDead()) this.#process.kill('SIGKILL');
    return new Error(
      `${name}: its Python (process ${pid}) was busy with ${doing} for ${timeoutMs / 1000} s and was ended; the option timeout allows more${lastOutput(this.#outputEnd())}`,
    );
  }

  /** Returns the end of the process's output. */
  #outputEnd(): string {
    if (this.#printed === null) return '';
    const { size } = fstatSync(this.#printed);
    const bytes = Buffer.alloc(Math.min(size, MAX_QUOTED_BYTES));
    readSync(this.#printed, bytes, 0, bytes.length, size - bytes.length);
    return bytes.toString().trimEnd();
  }

  #truncateOutput(): void {
    if (this.#printed !== null && fstatSync(this.#printed).size > MAX_KEPT_BYTES)
      ftruncateSync(this.#printed);
  }
}

const lastOutput = (printed: string): string =>
  printed === '' ? '' : `; its last output:\n${printed}`;

/** Opens a file without a name, which only its descriptor refers to. */
function unnamedFile(): number {
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-'));
  try {
    return openSync(join(folder, 'printed'), 'a+');
  } finally {
    rmSync(folder, { recursive: true });
  }
}
