/**
 * Runs child.ts with the shim, goes on behind whatever ended it, and says in words what a site is.
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
/** ms: longer than any try takes */
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

  /** On devices of a software driver, or on the host's. */
  constructor(mode: Mode | null = null) {
    this.#mode = mode;
  }

  close(): void {
    this.#running?.kill('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** What the child said, line by line, and how it ended. */
  async #child(
    args: string[],
    input = '',
  ): Promise<{ lines: string[]; how: string; errors: string }> {
    // Neither a card nor what is set for other tests: calls are then the same everywhere.
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
    child.stdin.on('error', () => {}); // it ended before it had read all
    child.stdin.end(input);
    const how = await new Promise<string>((resolve) =>
      child.on('close', (code, signal) => resolve(String(signal ?? code))),
    );
    clearTimeout(silence);
    return { lines: output.split('\n').filter((line) => line !== ''), how, errors };
  }

  /**
   * Sites of these parts, all where none is named: in 'part:site' those that any run comes by, and
   * those that the first does.
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

  /** All sites that any run of a part comes by, which was recorded. */
  ofPart(part: string): readonly string[] {
    return this.#ofPart.get(part)!;
  }

  /** Each of the pairs, in as few processes as live through it. */
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

  /** Each of the pairs in the first run of a process. */
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

  /** The parts of each kind, all where none is named, where every call of the kind fails. */
  async forced(kinds: Readonly<Record<string, readonly string[]>>): Promise<Forced[]> {
    const each = Object.entries(kinds).map(([kind, parts]) => `${kind}=${parts.join(',')}`);
    const { lines, how, errors } = await this.#child(['force', ...each]);
    if (how !== '0') throw new Error(`${lines.at(-1)} ended with ${how}: ${errors.slice(-2000)}`);
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Forced);
  }

  /** What is called, and from where. */
  named(pair: string): string {
    const site = this.sites.get(pair.split(':')[1] ?? '');
    if (!site) return pair;
    const names = site.frames.map((frame) => {
      const [file, offset] = frame.split('+') as [string, string];
      // The call lies in front of where it returns to.
      const address = `0x${(Number(offset) - 1).toString(16)}`;
      const place = join(repository, 'build/Release', file);
      const { stdout } = spawnSync('addr2line', ['-Cfe', place, address], { encoding: 'utf8' });
      return `${file} ${stdout?.split('\n')[0] || offset}`;
    });
    return `${pair} (${site.kind} from ${names.join(' < ')})`;
  }
}
