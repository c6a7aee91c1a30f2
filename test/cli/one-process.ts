/**
 * Runs a command's module in this process, once for each list of arguments. Prints a JSON line for
 * each run with its output and exit code. Arguments: the module's URL, and a JSON list of lists.
 */
import { fileURLToPath } from 'node:url';

const [url = '', lists = '[]'] = process.argv.slice(2);
const { stdout, stderr } = process;
const write = { stdout: stdout.write, stderr: stderr.write };
for (const [i, args] of (JSON.parse(lists) as string[][]).entries()) {
  process.argv = [process.execPath, fileURLToPath(url), ...args];
  process.exitCode = undefined;
  const said = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    process[name].write = (text: string | Uint8Array) => {
      said[name] += String(text);
      return true;
    };
  // The query makes Node load the module again. The modules that it imports are loaded once.
  await import(`${url}?${i}`);
  Object.assign(stdout, { write: write.stdout });
  Object.assign(stderr, { write: write.stderr });
  stdout.write(`${JSON.stringify({ ...said, code: process.exitCode ?? 0 })}\n`);
}
process.exitCode = 0;
