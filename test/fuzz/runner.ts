/** Starts and watches the process that makes the calls, and makes each failing case small. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Random } from '../../src/index.ts';
import { environmentOf, type Mode } from '../drivers/software.ts';
import type { Counts } from './calling.ts';
import type { Answer, Task } from './child.ts';
import { type KindName, kinds } from './kinds.ts';
import { type Call, callText, smallerCalls } from './values.ts';

export interface Plan {
  readonly kind: KindName;
  readonly device: string;
  readonly seed: number;
  readonly calls: number;
  /** number of the first call */
  readonly from?: number;
  readonly env?: NodeJS.ProcessEnv;
  /** called with each failure as soon as it is found */
  readonly onFound?: (found: Found) => void;
  /** number of failures after which fuzzing ends */
  readonly most?: number;
}

export interface Found {
  readonly n: number;
  readonly text: string;
  /** the calls as code that can be pasted */
  readonly code: string;
}

export interface Report {
  readonly counts: Counts;
  readonly found: readonly Found[];
  readonly forms: ReadonlyMap<string, readonly [calls: number, answers: number]>;
  readonly seconds: number;
}

/**
 * A process that makes no new call for this time hangs. Sanitizers and a loaded machine are slow.
 */
const HANG_MS = 60_000;
const LOOK_MS = 500;
/** KiB of address space of the process. An allocation beyond it fails, as on a full machine. */
const ADDRESSES = 9 * 2 ** 20;
const SHRINK_MS = 60_000;

const ended = (text: string) => text.startsWith('the process ');

/** The process that makes the calls. It is started again after it has ended. */
class Making {
  readonly #plan: Plan;
  readonly #folder = mkdtempSync(join(tmpdir(), 'hotslot-fuzzing-'));
  readonly #file = join(this.#folder, 'at');
  #child: ChildProcess | null = null;
  #said = '';

  constructor(plan: Plan) {
    this.#plan = plan;
    writeFileSync(this.#file, Buffer.alloc(16));
  }

  /** Returns the answer to a task. If the process ended or hung: how, and at which call. */
  async perform(task: Task): Promise<Answer | { died: string; n: number }> {
    const child = this.#child ?? (await this.#start());
    if (child === null)
      return { died: `the process did not start: ${this.#said.slice(-2000)}`, n: -1 };
    return new Promise((resolve) => {
      let [last, since, hung] = [this.#at()[1], performance.now(), false];
      const timer = setInterval(() => {
        const [, looks] = this.#at();
        if (looks !== last) [last, since] = [looks, performance.now()];
        else if (performance.now() - since > HANG_MS) {
          hung = true;
          child.kill('SIGKILL');
        }
      }, LOOK_MS);
      const over = (answer: Awaited<ReturnType<Making['perform']>>) => {
        clearInterval(timer);
        child.removeAllListeners();
        resolve(answer);
      };
      child.once('message', (answer: Answer) => over(answer));
      child.once('close', (status, signal) => {
        this.#child = null;
        const how = hung
          ? `did not come back within ${HANG_MS / 1000} s`
          : `ended with ${signal ?? status}: ${this.#said.slice(-3000)}`;
        over({ died: `the process ${how}`, n: this.#at()[0] });
      });
      child.send(task);
    });
  }

  close(): void {
    this.#child?.disconnect();
    this.#child = null;
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #at(): [n: number, looks: number] {
    const bytes = readFileSync(this.#file);
    return [bytes.readDoubleLE(0), bytes.readDoubleLE(8)];
  }

  async #start(): Promise<ChildProcess | null> {
    const { kind, device, env = process.env } = this.#plan;
    this.#said = '';
    const script = fileURLToPath(new URL('./child.js', import.meta.url));
    const node = [process.execPath, '--enable-source-maps', script, kind, device, this.#file];
    // AddressSanitizer needs more addresses than any limit.
    const limited = !String(env.LD_PRELOAD ?? '').includes('asan');
    const command = limited
      ? ['sh', '-c', `ulimit -v ${ADDRESSES}; exec "$@"`, 'sh', ...node]
      : node;
    const child = spawn(command[0] as string, command.slice(1), {
      env,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    for (const out of [child.stdout, child.stderr])
      out?.on('data', (part: Buffer) => {
        this.#said = (this.#said + part.toString()).slice(-8000);
      });
    const ready = await new Promise<boolean>((resolve) => {
      child.once('message', () => resolve(true));
      child.once('close', () => resolve(false));
    });
    child.removeAllListeners();
    this.#child = ready ? child : null;
    return this.#child;
  }
}

/**
 * The environment of a software driver that does not check the order of operations, because drawn
 * calls have none.
 */
export const unordered = (mode: Mode): NodeJS.ProcessEnv =>
  environmentOf(mode, { HOTSLOT_SOFTWARE_ORDER: '' });

/** Returns the same text for failures that are alike. */
const alike = (text: string) => text.replace(/[0-9.]+/g, '#').slice(0, ended(text) ? 24 : 70);

async function shrunk(
  making: Making,
  calls: readonly Call[],
  text: string,
): Promise<readonly Call[]> {
  const until = performance.now() + SHRINK_MS;
  const fails = async (tried: readonly Call[]) => {
    const answer = await making.perform({ calls: tried });
    const said = 'died' in answer ? answer.died : answer.fault?.text;
    return said !== undefined && alike(said) === alike(text);
  };
  // Tries the last call alone, then with the calls before it.
  let least = calls;
  const alone = calls.slice(-1);
  if (await fails(alone)) least = alone;
  else if (!(await fails(calls))) return calls.slice(-1);
  for (let smaller = true; smaller && performance.now() < until; ) {
    smaller = false;
    for (const tried of smallerCalls(least)) {
      if (performance.now() > until) break;
      if (!(await fails(tried))) continue;
      least = tried;
      smaller = true;
      break;
    }
  }
  return least;
}

/** Makes the calls of a plan. Reports each way of failing once, with a small case. */
export async function fuzz(plan: Plan): Promise<Report> {
  const begin = performance.now();
  const making = new Making(plan);
  const counts: Counts = { calls: 0, answers: 0, refusals: 0, told: 0, waits: 0 };
  const forms = new Map<string, [number, number]>();
  const found: Found[] = [];
  const seen = new Set<string>();
  // Draws the same calls as the process, to print those that failed.
  const { draw, inOnePlace } = await kinds[plan.kind](plan.env ? 'host:0' : plan.device);
  const { seed, from = 0, most = 20 } = plan;
  const to = from + plan.calls;
  try {
    for (let next = from; next < to && found.length < most; ) {
      const answer = await making.perform({ seed, from: next, to });
      const fault =
        'died' in answer
          ? { text: answer.died, n: answer.n, before: Math.min(inOnePlace, answer.n - next) }
          : answer.fault;
      // The results of the calls before the last one are lost with the process.
      if ('died' in answer) counts.calls += Math.max(0, answer.n + 1 - next);
      if ('counts' in answer) {
        for (const name of Object.keys(counts) as (keyof Counts)[])
          counts[name] += answer.counts[name];
        for (const [form, calls, answers] of answer.forms) {
          const before = forms.get(form) ?? [0, 0];
          forms.set(form, [before[0] + calls, before[1] + answers]);
        }
      }
      if (fault === null) break;
      if (fault.n < next) throw new Error(fault.text);
      next = fault.n + 1;
      if (seen.has(alike(fault.text))) continue;
      seen.add(alike(fault.text));
      const calls = Array.from({ length: fault.before + 1 }, (_, i) =>
        draw(new Random(seed, fault.n - fault.before + i)),
      );
      const least = await shrunk(making, calls, fault.text);
      const one = {
        n: fault.n,
        text: fault.text,
        code: least.map((call) => `await ${callText(call)};`).join('\n'),
      };
      found.push(one);
      plan.onFound?.(one);
    }
  } finally {
    making.close();
  }
  return { counts, found, forms, seconds: (performance.now() - begin) / 1000 };
}

/** Describes the failures for a person. */
export const inWords = ({ seed, kind, device }: Plan, { found }: Pick<Report, 'found'>): string =>
  found
    .map(
      ({ n, text, code }) =>
        `${text}\n${code.replace(/^/gm, '    ')}\n    (--target ${kind} --device ${device} --seed ${seed} --from ${n} --calls 1)`,
    )
    .join('\n\n');
