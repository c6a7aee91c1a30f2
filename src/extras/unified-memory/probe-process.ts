/**
 * Runs the probe of managed memory in a child process with a time limit, and describes how it
 * ended. The async and the blocking function return the same outcome.
 */
import { spawn, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import {
  UnifiedMemoryCompileTimeoutError,
  UnifiedMemoryUnsupportedError,
} from '../../base/errors.ts';
import type { DeviceFamily } from '../../device/facts.ts';

/** The probe's result for a family. `reason` is null if the family has managed memory. */
export interface ProbeResult {
  family: DeviceFamily;
  reason: string | null;
}

/** The line that the probe prints before it tries a device. */
export interface Trying {
  trying: string;
}

export type Reasons = Partial<Record<DeviceFamily, string | null>>;

export interface Outcome {
  /** null if the probe exited with code 0 in time and reported on every family */
  error: UnifiedMemoryUnsupportedError | null;
  reasons: Reasons;
}

/**
 * How the child process ended. `code` is null if a signal ended it. `signal` is null if it exited.
 * Both are null if it did not start.
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
    // Several events can call this, and the promise takes the first outcome.
    const end = (outcome: Outcome) => {
      clearTimeout(limit);
      resolve(outcome);
    };
    const limit = setTimeout(() => {
      child.kill('SIGKILL');
      // A child that hangs in a driver may end late or never. unref() and destroy() let this
      // process exit before the child ends.
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

/** Does what probe() does, and blocks the thread until the probe ends. */
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

/** Returns the outcome for a child process that could not be started. */
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
  const detail = failed?.message ?? lastError(stderr) ?? 'it printed no errors';
  return {
    error: new UnifiedMemoryUnsupportedError(`the probe of managed memory ${how}: ${detail}`),
    reasons: {},
  };
}

/**
 * Returns the last line of the message of an uncaught exception, or undefined. Skips the stack and
 * Node's version, which Node prints after the message.
 */
function lastError(stderr: string): string | undefined {
  return stderr
    .split('\n')
    .filter((line) => line.trim() !== '' && !/^(\s+at |Node\.js v)/.test(line))
    .at(-1);
}

/**
 * Parses the lines of JSON that start with `key`. Ignores incomplete lines, and lines that a driver
 * printed.
 */
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
 * Returns the device that the probe was trying when it ended, or undefined. The probe lists the
 * devices of all families before it tries the first device.
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

/** Environment settings with which Hotslot leaves out a family. The host family has none. */
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
