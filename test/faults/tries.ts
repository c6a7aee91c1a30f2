/**
 * Runs child.ts with the shim. If a try ends the process, it continues with the next try in a new
 * one. It also describes sites for people.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { environmentOf, type Mode } from '../drivers/software.ts';
import type { Forced, Recorded, Tried } from './child.ts';
import { buildShim, repository, type Site } from './shim.ts';

const CHILD = fileURLToPath(new URL('./child.js', import.meta.url));
/** ms without output after which the child is killed, longer than any try takes */
const PATIENCE = 110_000;

/** A try that ended its process. */
export interface Ended {
  /** 'part:site' */
  pair: string;
  /** exit code or signal */
  how: string;
  errors: string;
}

export class Tries {
  readonly #mode: Mode | null;
  readonly #shim = buildShim();
  readonly #folder = mkdtempSync(join(tmpdir(), 'hotslot-faults-'));
  #running: ChildProcess | null = null;
  /** by id */
  readonly sites = new Map<string, Site>();
  readonly #ofPart = new Map<string, string[]>();

  /** `mode` is a software driver whose devices are used. Without it, the CPU device is used. */
  constructor(mode: Mode | null = null) {
    this.#mode = mode;
  }

  close(): void {
    this.#running?.kill('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Runs the child. Returns its lines of output, and its exit code or signal. */
  async #child(
    args: string[],
    input = '',
  ): Promise<{ lines: string[]; how: string; errors: string }> {
    // Without GPUs, the calls are the same on every machine.
    const none = {
      ...process.env,
      HOTSLOT_CUDA: 'none',
      HOTSLOT_HIP: 'none',
      HOTSLOT_LEVEL_ZERO: 'none',
    };
    const devices = this.#mode ? environmentOf(this.#mode) : none;
    const env = { ...devices, LD_PRELOAD: this.#shim, FAULT_FOLDER: this.#folder };
    const flags = ['--expose-gc', '--no-warnings', '--enable-source-maps'];
    const child = spawn(process.execPath, [...flags, CHILD, ...args], {
      cwd: repository,
      env,
      stdio: 'pipe',
    });
    this.#running = child;
    let [output, errors] = ['', ''];
    let silence: NodeJS.Timeout | undefined;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => child.kill('SIGKILL'), PATIENCE);
    };
    heard();
    child.stdout.on('data', (text) => {
      output += text;
      heard();
    });
    child.stderr.on('data', (text) => (errors += text));
    child.stdin.on('error', () => {}); // the child may end before it has read everything
    child.stdin.end(input);
    const how = await new Promise<string>((resolve) =>
      child.on('close', (code, signal) => resolve(String(signal ?? code))),
    );
    clearTimeout(silence);
    return { lines: output.split('\n').filter((line) => line !== ''), how, errors };
  }

  /**
   * Records the sites of these parts, or of all parts if none is named. Returns them as
   * 'part:site': those that any run reaches, and those that only a first run reaches.
   */
  async record(parts: readonly string[] = []): Promise<{ again: string[]; once: string[] }> {
    const { lines, how, errors } = await this.#child(['record', parts.join(',')]);
    if (how !== '0') throw new Error(`recording ended with ${how}: ${errors.slice(-2000)}`);
    const first = new Map<string, string>();
    const again = new Map<string, string>();
    for (const { part, first: seen, again: ids } of lines.map(
      (line) => JSON.parse(line) as Recorded,
    )) {
      for (const site of seen) {
        this.sites.set(site.id, site);
        if (!first.has(site.id)) first.set(site.id, part);
      }
      for (const id of ids) if (!again.has(id)) again.set(id, part);
      this.#ofPart.set(
        part,
        ids.map((id) => `${part}:${id}`),
      );
    }
    const pairs = (all: Map<string, string>) => [...all].map(([id, part]) => `${part}:${id}`);
    return {
      again: pairs(again),
      once: pairs(new Map([...first].filter(([id]) => !again.has(id)))),
    };
  }

  /** Returns the sites that any run of a recorded part reaches. */
  ofPart(part: string): readonly string[] {
    return this.#ofPart.get(part)!;
  }

  /**
   * Tries each of the pairs. A new process is started only if a try has ended the process before.
   */
  async tried(pairs: readonly string[]): Promise<{ tried: Tried[]; ended: Ended[] }> {
    const [tried, ended]: [Tried[], Ended[]] = [[], []];
    for (let rest = pairs; rest.length > 0; ) {
      const { lines, how, errors } = await this.#child(['try'], rest.join('\n'));
      const begun = lines.filter((line) => line.startsWith('> '));
      tried.push(
        ...lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Tried),
      );
      if (how !== '0') ended.push({ pair: begun.at(-1)?.slice(2) ?? 'the beginning', how, errors });
      if (begun.length === 0) break;
      rest = rest.slice(begun.length);
    }
    return { tried, ended };
  }

  /** Tries each of the pairs in the first run of its own process. */
  async triedFirst(pairs: readonly string[]): Promise<{ tried: Tried[]; ended: Ended[] }> {
    const [tried, ended]: [Tried[], Ended[]] = [[], []];
    for (const pair of pairs) {
      const { lines, how, errors } = await this.#child(['first', pair]);
      const line = lines.find((each) => each.startsWith('{'));
      if (line !== undefined && how === '0') tried.push(JSON.parse(line) as Tried);
      else ended.push({ pair, how, errors });
    }
    return { tried, ended };
  }

  /**
   * For each kind, runs its parts while every call of the kind fails. An empty list means all
   * parts.
   */
  async forced(kinds: Readonly<Record<string, readonly string[]>>): Promise<Forced[]> {
    const each = Object.entries(kinds).map(([kind, parts]) => `${kind}=${parts.join(',')}`);
    const { lines, how, errors } = await this.#child(['force', ...each]);
    if (how !== '0') throw new Error(`${lines.at(-1)} ended with ${how}: ${errors.slice(-2000)}`);
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Forced);
  }

  /** Returns the function that the site calls, and the names of the callers. */
  named(pair: string): string {
    const site = this.sites.get(pair.split(':')[1] ?? '');
    if (!site) return pair;
    const names = site.frames.map((frame) => {
      const [file, offset] = frame.split('+') as [string, string];
      // The call is just before its return address.
      const address = `0x${(Number(offset) - 1).toString(16)}`;
      const place = join(repository, 'build/Release', file);
      const { stdout } = spawnSync('addr2line', ['-Cfe', place, address], { encoding: 'utf8' });
      return `${file} ${stdout?.split('\n')[0] || offset}`;
    });
    return `${pair} (${site.kind} from ${names.join(' < ')})`;
  }
}
