/**
 * Starts the probe as a child process with a time limit, and describes how it ended. The async and
 * the blocking form give the same outcome.
 */
import { spawn, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import {
  UnifiedMemoryCompileTimeoutError,
  UnifiedMemoryUnsupportedError,
} from '../../base/errors.ts';
import type { DeviceFamily } from '../../device/facts.ts';

/** The probe's result for a family: why it has no managed memory, or null if it has. */
export interface ProbeResult {
  family: DeviceFamily;
  reason: string | null;
}

/** The device that the probe tries next. */
export interface Trying {
  trying: string;
}

export type Reasons = Partial<Record<DeviceFamily, string | null>>;

export interface Outcome {
  /** null if the probe ended in time and reported on every family */
  error: UnifiedMemoryUnsupportedError | null;
  reasons: Reasons;
}

/**
 * How the child ended. `code` is null after a signal, `signal` after an exit, and both if it did
 * not start.
 */
interface Ended {
  code: number | null;
  signal: string | null;
  stdout: string;
  stderr: string;
  failed?: Error | undefined;
}

const families: readonly DeviceFamily[] = ['cuda', 'rocm', 'xpu', 'host'];
const args = () => [fileURLToPath(new URL('./probe.js', import.meta.url)), String(process.pid)];

export function probe(timeoutMs: number): Promise<Outcome> {
  return new Promise((resolve) => {
    let stdout = '';
    let stderr = '';
    const child = spawn(process.execPath, args(), { stdio: ['ignore', 'pipe', 'pipe'] });
    // Only the first end counts.
    const end = (outcome: Outcome) => {
      clearTimeout(limit);
      resolve(outcome);
    };
    const limit = setTimeout(() => {
      child.kill('SIGKILL');
      // A child stuck in a driver may die late, or never. This process does not wait for that.
      for (const part of [child, child.stdout, child.stderr] as Partial<typeof child>[])
        part.unref?.();
      child.stdout.destroy();
      child.stderr.destroy();
      end(timedOut(timeoutMs, stdout));
    }, timeoutMs);
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    child.on('error', (failed) => end(notStarted(failed)));
    child.on('close', (code, signal) => end(outcomeOf({ code, signal, stdout, stderr })));
  });
}

/** Blocks the thread until the probe ends. */
export function probeSync(timeoutMs: number): Outcome {
  const ended = spawnSync(process.execPath, args(), {
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { status: code, signal, stdout, stderr, error: failed } = ended;
  if ((failed as NodeJS.ErrnoException | undefined)?.code === 'ETIMEDOUT')
    return timedOut(timeoutMs, stdout);
  return outcomeOf({ code, signal, stdout: stdout ?? '', stderr: stderr ?? '', failed });
}

/** Returns the outcome of a child that the system did not start. */
export function notStarted(failed: Error): Outcome {
  return outcomeOf({ code: null, signal: null, stdout: '', stderr: '', failed });
}

function timedOut(timeoutMs: number, stdout: string): Outcome {
  const error = new UnifiedMemoryCompileTimeoutError(
    `the probe of managed memory was ended after ${timeoutMs} ms, ${where(stdout)}; a driver may hang there: ` +
      `${leaveOut(stdout)}if it is only slow, give a longer timeoutMs`,
  );
  return { error, reasons: {} };
}

function outcomeOf({ code, signal, stdout, stderr, failed }: Ended): Outcome {
  const reasons = readReasons(stdout);
  const complete = silent(reasons) === '';
  if (code === 0 && complete) return { error: null, reasons };
  let how = failed
    ? 'could not be started'
    : `ended with ${signal === null ? `code ${code}` : `signal ${signal}`}`;
  if (!complete && !failed) how += ` ${where(stdout)}`;
  const reported = failed?.message ?? lastError(stderr) ?? 'it printed no errors';
  return {
    error: new UnifiedMemoryUnsupportedError(`the probe of managed memory ${how}: ${reported}`),
    reasons: {},
  };
}

/**
 * Returns the last line before the stack and Node's version, with which an uncaught exception ends.
 */
function lastError(stderr: string): string | undefined {
  return stderr
    .split('\n')
    .filter((line) => line.trim() !== '' && !/^(\s+at |Node\.js v)/.test(line))
    .at(-1);
}

/** Parses the lines that begin with `key`. Other lines are printed by a driver, or cut off. */
function linesOf<T>(stdout: string, key: string): T[] {
  const lines = stdout
    .split('\n')
    .filter((line) => line.startsWith(`{"${key}":`) && line.endsWith('}'));
  return lines.map((line) => JSON.parse(line) as T);
}

function readReasons(stdout: string): Reasons {
  return Object.fromEntries(
    linesOf<ProbeResult>(stdout, 'family').map(({ family, reason }) => [family, reason]),
  );
}

/**
 * Returns the device that was tried when the probe ended. All families are opened before the first
 * device is tried.
 */
function tried(stdout: string): string | undefined {
  const last = linesOf<Trying>(stdout, 'trying').at(-1)?.trying;
  return last && readReasons(stdout)[familyOf(last)] === undefined ? last : undefined;
}

function where(stdout: string): string {
  const [device, reasons] = [tried(stdout), readReasons(stdout)];
  if (device) return `while it tried managed memory on ${device}`;
  if (Object.keys(reasons).length === 0) return 'before the devices were listed';
  const missing = silent(reasons);
  return missing === '' ? 'after all checks' : `without a result for ${missing}`;
}

/** Variables that keep a family's driver from being opened. The host device has none. */
const variables: Partial<Record<DeviceFamily, string>> = {
  cuda: 'HOTSLOT_CUDA=none',
  rocm: 'HOTSLOT_HIP=none',
  xpu: 'HOTSLOT_LEVEL_ZERO=none',
};

function leaveOut(stdout: string): string {
  const device = tried(stdout);
  if (!device)
    return `${Object.values(variables)
      .join(', ')
      .replace(/, (?=[^,]*$)/, ' or ')} leaves one out, `;
  const variable = variables[familyOf(device)];
  return variable ? `${variable} leaves it out, ` : '';
}

const familyOf = (device: string) => device.split(':')[0] as DeviceFamily;

const silent = (reasons: Reasons) =>
  families.filter((family) => reasons[family] === undefined).join(', ');
