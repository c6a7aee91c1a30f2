/** Runs a compiled command as a user would, in a process that must end by itself. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface Ran {
  code: number | null;
  stdout: string;
  stderr: string;
  /** the non-empty lines of stdout */
  lines: string[];
}

export interface RunOptions {
  env?: NodeJS.ProcessEnv;
  /** the process gets SIGINT when its stdout matches */
  interruptAt?: RegExp;
  /** the process gets SIGINT when the signal aborts */
  signal?: AbortSignal;
  /** called with all of stdout so far, whenever there is more */
  onStdout?: (stdout: string) => void;
  /** called with all of stderr so far, whenever there is more. `interrupt` sends SIGINT */
  onStderr?: (stderr: string, interrupt: () => void) => void;
}

/** Runs `file`, relative to the compiled tree, such as 'src/cli/main.js'. */
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

/**
 * Runs many command lines in turn in one process, because starting a process takes longer than
 * these commands. They must end at once, such as for wrong usage.
 */
export async function runEach(
  file: string,
  lines: readonly (readonly string[])[],
  env: NodeJS.ProcessEnv = {},
): Promise<Ran[]> {
  const url = new URL(`../../${file}`, import.meta.url).href;
  const ran = await run('test/cli/one-process.js', [url, JSON.stringify(lines)], { env });
  if (ran.code !== 0 || ran.lines.length !== lines.length)
    throw new Error(
      `${file} ${lines[ran.lines.length]?.join(' ')} ended with ${ran.code}: ${ran.stdout}${ran.stderr}`,
    );
  return ran.lines.map((line) => {
    const said = JSON.parse(line) as Omit<Ran, 'lines'>;
    return { ...said, lines: said.stdout.split('\n').filter((each) => each !== '') };
  });
}
