/**
 * Checks mutated code: `node mutated.js FILE FROM TO WHAT` replaces a text in a module of the library
 * while Node loads it. WHAT is the name of a program, whose gradients it compares with central
 * differences, or a number of random programs to run. Further arguments name the ops of these
 * programs. It prints the first difference, or nothing.
 */
import { readFileSync } from 'node:fs';
import { register } from 'node:module';
import { fileURLToPath } from 'node:url';

const [file = '', from = '', to = '', what = '0', ...only] = process.argv.slice(2);
const ops = only.length > 0 ? only : undefined;
const url = new URL(`../../src/learn/trace/${file}.js`, import.meta.url).href;
const source = readFileSync(fileURLToPath(url), 'utf8');
if (source.split(from).length !== 2)
  throw new Error(`'${from}' occurs ${source.split(from).length - 1} times in ${file}, not once`);
const mutated = source.replace(from, () => to);
register(
  `data:text/javascript,${encodeURIComponent(`
    const [url, source] = ${JSON.stringify([url, mutated])};
    export const load = (from, context, next) =>
      from === url ? { format: 'module', source, shortCircuit: true } : next(from, context);
  `)}`,
);
const { changedByPoison, drawn, wrongIn } = await import('./graphs.ts');
const { checkProgram, programs } = await import('./programs.ts');

if (Object.hasOwn(programs, what)) {
  try {
    checkProgram(what);
  } catch (error) {
    console.log(`${what}: ${(error as Error).message}`);
  }
} else
  for (let seed = 0; seed < Number(what); seed++) {
    const graph = drawn(seed, ops);
    const found = (await wrongIn(graph)) ?? (await changedByPoison(graph));
    if (found === null) continue;
    console.log(`seed ${seed}: ${found}`);
    break;
  }
