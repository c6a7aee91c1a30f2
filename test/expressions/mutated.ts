/**
 * Checks mutated code: `node mutated.js FILE FROM TO COUNT` replaces a text in a module of the
 * library while Node loads it. For a module of gradients it compares the gradients of all programs
 * with central differences, and for another module it runs COUNT random programs. It prints the
 * first difference, or nothing.
 */
import { readFileSync } from 'node:fs';
import { register } from 'node:module';
import { fileURLToPath } from 'node:url';

const [file = '', from = '', to = '', count = '0'] = process.argv.slice(2);
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

const ofGradients = /^(rules|gradient)$/.test(file);
for (const name of ofGradients ? Object.keys(programs) : []) {
  try {
    checkProgram(name);
  } catch (error) {
    console.log(`${name}: ${(error as Error).message}`);
    process.exit();
  }
}
for (let seed = 0; !ofGradients && seed < Number(count); seed++) {
  const graph = drawn(seed);
  const found = (await wrongIn(graph)) ?? (await changedByPoison(graph));
  if (found === null) continue;
  console.log(`seed ${seed}: ${found}`);
  break;
}
