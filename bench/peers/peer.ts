/** A program in another language that times the same work when it is asked, a line for a line. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** The one of the PATH, and Debian's, which has what apt-get installs. */
const pythons = ['python3', '/usr/bin/python3'];
const found = new Map<string, string | null>();

/** The python that has these modules, or null. */
export function pythonWith(modules: string): string | null {
  if (!found.has(modules)) {
    const has = (python: string) => spawnSync(python, ['-c', `import ${modules}`]).status === 0;
    found.set(modules, pythons.find(has) ?? null);
  }
  return found.get(modules) as string | null;
}

/** What a program in torch says of itself. */
export interface Said {
  torch: string;
  threads: number;
  /** a GPU's name, or 'processor' */
  place: string;
  /** its updates are replayed as CUDA graphs */
  graphs: boolean;
}
export const threadsOf = (count: number): string => `${count} thread${count === 1 ? '' : 's'}`;
export const nameOf = ({ torch, place, graphs }: Said): string =>
  `PyTorch ${torch}${graphs ? `, CUDA graphs on ${place}` : ` on the ${place}`}`;

/** The folder of the programs. */
export const PROGRAMS = fileURLToPath(new URL('../../../bench/peers/', import.meta.url));

export class Peer {
  readonly #child: ChildProcess;
  readonly #answers: AsyncIterator<string>;

  /** Whether there is a python that has these modules. */
  static has(modules: string): boolean {
    return pythonWith(modules) !== null;
  }

  /** `program`: a file of this folder, for a python that has `modules`; it is told `task` first. */
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
  /** The first line of a program in torch. */
  async said(): Promise<Said> {
    return JSON.parse(await this.line()) as Said;
  }
  /** Microseconds. */
  async time(what: string): Promise<number> {
    this.#say(what);
    return Number(await this.line());
  }
  close(): void {
    this.#child.stdin?.end();
  }
}
