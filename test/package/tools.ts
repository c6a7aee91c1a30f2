/**
 * Runs commands in temporary projects, and skips tests whose packages the registry does not have.
 */
import { spawn } from 'node:child_process';
import { expect } from 'chai';

interface Ran {
  code: number | null;
  text: string;
}

/** Runs a command in a project, without the variables that lead to this checkout. */
export function run(
  folder: string,
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Ran> {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(npm_(?!config_)|HOTSLOT_|INIT_CWD|NODE_PATH)/.test(name),
  );
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: folder,
      env: { ...Object.fromEntries(own), ...env },
    });
    let text = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, text }));
  });
}

/**
 * Skips the test and prints why if the registry does not have the package or cannot be reached.
 * Fails for any other error.
 */
export function leaveUnlessHad(
  context: Mocha.Context,
  wanted: readonly string[],
  code: number | null,
  text: string,
): void {
  const away = /\b(E404|ETARGET|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT)\b/.exec(
    text,
  );
  if (code === 0 || !away) {
    expect(code, text).to.equal(0);
    return;
  }
  console.log(`      skipped: ${wanted.join(' and ')} cannot be had here (${away[1]})`);
  context.skip();
}
