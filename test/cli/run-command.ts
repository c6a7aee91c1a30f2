/** Runs a compiled command as a user would, in a process of its own that has to end by itself. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface Ran {
  code: number | null;
  stdout: string;
  stderr: string;
  /** stdout, a line each */
  lines: string[];
}

export interface RunOptions {
  env?: NodeJS.ProcessEnv;
  /** sent SIGINT when its stdout matches */
  interruptAt?: RegExp;
  /** sent SIGINT with it */
  signal?: AbortSignal;
  /** told all of its stdout so far, whenever there is more */
  onStdout?: (stdout: string) => void;
  /** the same of its stderr; the function sends SIGINT */
  onStderr?: (stderr: string, interrupt: () => void) => void;
}

/** `file` relative to the compiled tree, e.g. 'src/cli/main.js'. */
export function run(
  file: string,
  args: readonly string[],
  { env = {}, interruptAt, signal, onStdout, onStderr }: RunOptions = {},
): Promise<Ran> {
  const path = fileURLToPath(new URL(`../../${file}`, import.meta.url));
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [path, ...args], { env: { ...process.env, ...env } });
    let stdout = '';
    let stderr = '';
    let interrupted = false;
    signal?.addEventListener('abort', () => child.kill('SIGINT'));
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      onStdout?.(stdout);
      if (!interrupted && interruptAt?.test(stdout)) {
        interrupted = true;
        child.kill('SIGINT');
      }
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
      onStderr?.(stderr, () => child.kill('SIGINT'));
    });
    child.on('error', reject);
    child.on('close', (code) =>
      resolve({ code, stdout, stderr, lines: stdout.split('\n').filter((line) => line !== '') }),
    );
  });
}
