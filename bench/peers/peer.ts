/**
 * Runs a Python program that times the same work on request. Each request and each answer is a
 * line.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** The python3 of the PATH, and Debian's, which has the modules that apt-get installs. */
const pythons = ['python3', '/usr/bin/python3'];
const found = new Map<string, string | null>();

/** Returns the Python that has these modules, or null. */
export function pythonWith(modules: string): string | null {
  if (!found.has(modules)) {
    const has = (python: string) => spawnSync(python, ['-c', `import ${modules}`]).status === 0;
    found.set(modules, pythons.find(has) ?? null);
  }
  return found.get(modules) as string | null;
}

/** What a torch program reports about itself in its first line. */
export interface Said {
  torch: string;
  threads: number;
  /** a GPU's name, or 'processor' */
  place: string;
  /** whether its updates are replayed as CUDA graphs */
  graphs: boolean;
}
export const threadsOf = (count: number): string => `${count} thread${count === 1 ? '' : 's'}`;
export const nameOf = ({ torch, place, graphs }: Said): string =>
  `PyTorch ${torch}${graphs ? `, CUDA graphs on ${place}` : ` on the ${place}`}`;

/** The folder of the Python programs. */
export const PROGRAMS = fileURLToPath(new URL('../../../bench/peers/', import.meta.url));

export class Peer {
  readonly #child: ChildProcess;
  readonly #answers: AsyncIterator<string>;

  /** Returns whether a Python has these modules. */
  static has(modules: string): boolean {
    return pythonWith(modules) !== null;
  }

  /**
   * Starts `program`, a file of this folder, with a Python that has `modules`, and sends it `task`.
   */
  constructor(program: string, modules: string, task: unknown) {
    const python = pythonWith(modules) ?? 'python3';
    this.#child = spawn(python, [PROGRAMS + program], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#answers = createInterface(this.#child.stdout as NodeJS.ReadableStream)[
      Symbol.asyncIterator
    ]();
    this.#say(JSON.stringify(task));
  }
  #say(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }
  async line(): Promise<string> {
    const { value, done } = await this.#answers.next();
    if (done) throw new Error('the other program ended');
    return value;
  }
  /** Reads the first line of a torch program. */
  async said(): Promise<Said> {
    return JSON.parse(await this.line()) as Said;
  }
  /** Requests `what` and returns its microseconds. */
  async time(what: string): Promise<number> {
    this.#say(what);
    return Number(await this.line());
  }
  close(): void {
    this.#child.stdin?.end();
  }
}
