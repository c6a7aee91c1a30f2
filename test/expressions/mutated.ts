/**
 * Checks mutated code: reads a list of mutations from its argument. For each, Node loads the modules
 * of expressions once more, with one text of one module replaced. It prints a line for each mutation:
 * the first difference that a program finds, or an empty line.
 */
import { readFileSync } from 'node:fs';
import { register } from 'node:module';
import { fileURLToPath } from 'node:url';
import { describeValue } from '../../src/base/checks.ts';
import { onHost } from '../learner/traced/product-cases.ts';

/** Module in src/learn/trace, the text that is replaced, its replacement, and what finds it. */
export type Mutated = readonly [file: string, from: string, to: string, finder: string];

/** Number of random learners that run, from the seed that a finder names. */
const LEARNERS = 3;

const mutations = JSON.parse(process.argv[2] ?? '[]') as Mutated[];
const sources = mutations.map(([file, from, to]) => {
  const url = new URL(`../../src/learn/trace/${file}.js`, import.meta.url).href;
  const source = readFileSync(fileURLToPath(url), 'utf8');
  const count = source.split(from).length - 1;
  if (count !== 1)
    throw new Error(`${describeValue(from)} occurs ${count} times in ${file}, not once`);
  return [url, source.replace(from, () => to)];
});
// Modules of a mutation have its number as a query, which their imports inherit.
register(
  `data:text/javascript,${encodeURIComponent(`
    const sources = ${JSON.stringify(sources)};
    const numberOf = (url) => /\\?mutation=(\\d+)$/.exec(url ?? '')?.[1];
    export async function resolve(specifier, context, next) {
      const found = await next(specifier, context);
      const number = numberOf(context.parentURL);
      const own = /\\/(learn\\/trace\\/|device\\/guarded\\.|test\\/expressions\\/|learner\\/traced\\/|entries\\/trace\\.)/.test(found.url);
      if (number === undefined || !own || numberOf(found.url)) return found;
      return { ...found, url: found.url + '?mutation=' + number };
    }
    export async function load(url, context, next) {
      const number = numberOf(url);
      const [mutated, source] = sources[number] ?? [];
      if (number !== undefined && url.startsWith(mutated + '?'))
        return { format: 'module', source, shortCircuit: true };
      return next(url, context);
    }
  `)}`,
);

/** Returns the first difference that the programs find, or ''. */
async function found(number: number, finder: string): Promise<string> {
  const { changedByPoison, drawn, wrongIn } = (await import(
    `./graphs.js?mutation=${number}`
  )) as typeof import('./graphs.ts');
  const { checkProgram, programs } = (await import(
    `./programs.js?mutation=${number}`
  )) as typeof import('./programs.ts');
  if (Object.hasOwn(programs, finder)) {
    try {
      checkProgram(finder);
      return '';
    } catch (error) {
      return (error as Error).message;
    }
  }
  const [count, ...only] = finder.split(' ');
  if (only[0] === 'learners') {
    const random = (await import(
      `../learner/traced/random.js?mutation=${number}`
    )) as typeof import('../learner/traced/random.ts');
    for (let seed = Number(count); seed < Number(count) + LEARNERS; seed++) {
      const wrong = await random.wrongIn(random.drawn(seed));
      if (wrong !== null) return `learner ${seed}: ${wrong}`;
    }
    return '';
  }
  if (count === 'heads') {
    const { wrongDraws } = (await import(
      `./draw-cases.js?mutation=${number}`
    )) as typeof import('./draw-cases.ts');
    const { wrongHeads } = (await import(
      `./head-cases.js?mutation=${number}`
    )) as typeof import('./head-cases.ts');
    return (await wrongDraws()) ?? (await wrongHeads()) ?? '';
  }
  if (count === 'products') {
    const { cases, wrongIn: wrongProduct } = (await import(
      `../learner/traced/product-cases.js?mutation=${number}`
    )) as typeof import('../learner/traced/product-cases.ts');
    for (const name of Object.keys(cases)) {
      const wrong = await wrongProduct(name, await onHost(name)).catch(String);
      if (wrong !== null) return `${name}: ${wrong}`;
    }
    return '';
  }
  if (only[0] === 'chains') {
    const { changedByChain } = (await import(
      `./elementwise.js?mutation=${number}`
    )) as typeof import('./elementwise.ts');
    for (let seed = 0; seed < Number(count); seed++) {
      const wrong = await changedByChain(seed).then(
        ({ changed }) => changed,
        (error: unknown) => String(error),
      );
      if (wrong !== null) return wrong;
    }
    return '';
  }
  for (let seed = 0; seed < Number(count); seed++) {
    const graph = drawn(seed, only.length > 0 ? only : undefined);
    const wrong = (await wrongIn(graph)) ?? (await changedByPoison(graph));
    if (wrong !== null) return wrong;
  }
  return '';
}

for (const [number, [, , , finder]] of mutations.entries())
  console.log((await found(number, finder)).replaceAll('\n', ' '));
