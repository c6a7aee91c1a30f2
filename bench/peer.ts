/** A program in another language that times the same work when it is asked, a line for a line. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export class Peer {
  readonly #child: ChildProcess;
  readonly #answers: AsyncIterator<string>;

  /** Whether python3 has these modules. */
  static has(modules: string): boolean {
    return spawnSync('python3', ['-c', `import ${modules}`]).status === 0;
  }

  /** `program`: a file of this folder; it is told `task` first. */
  constructor(program: string, task: unknown) {
    const file = fileURLToPath(new URL(`../../bench/${program}`, import.meta.url));
    this.#child = spawn('python3', [file], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#answers = createInterface(this.#child.stdout as NodeJS.ReadableStream)[Symbol.asyncIterator]();
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
  /** Microseconds. */
  async time(what: string): Promise<number> {
    this.#say(what);
    return Number(await this.line());
  }
  close(): void {
    this.#child.stdin?.end();
  }
}
