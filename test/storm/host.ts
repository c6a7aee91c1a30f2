/**
 * The remote host of a storm: `hotslot collect` in its own process, which may be killed and is then
 * started again.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Wrong } from './oracle.ts';
import { RUN } from './run-name.ts';

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));

export class StormHost {
  readonly #url: string;
  readonly #wrong: Wrong;
  #child: ChildProcess | null = null;
  #names = 0;
  #said = '';
  #expected = false;

  constructor(url: string, wrong: Wrong) {
    this.#url = url;
    this.#wrong = wrong;
  }

  /** Starts the host with a new name, because its rows begin at 0 again. */
  start(): void {
    const args = [
      path('../../src/cli/main.js'),
      'collect',
      '--url',
      this.#url,
      '--run',
      RUN,
      '--workers',
      '2',
      '--entry',
      path('./collector.js'),
      '--outbox',
      '65536',
      '--name',
      `host-${++this.#names}`,
      '--json',
    ];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child = child;
    this.#said = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#said = (this.#said + text).slice(-2000);
      });
    child.once('exit', (code, signal) => {
      if (this.#child === child && !this.#expected)
        this.#wrong(`the host ended with ${code ?? signal}: ${this.#said}`);
    });
  }
  async strike(pick: number, ms: number): Promise<string> {
    if (pick % 3 === 0) {
      await this.close();
      this.start();
      return 'is killed';
    }
    this.#child?.kill('SIGSTOP');
    await wait(ms);
    this.#child?.kill('SIGCONT');
    return 'stands still';
  }
  async close(): Promise<void> {
    const child = this.#child;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    this.#expected = true;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
    this.#expected = false;
  }
}
