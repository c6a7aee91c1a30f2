/**
 * Counts patterns of docs/contributing/style.md in comments and pages. `npm run lint` fails if a
 * count is above its ceiling in ceilings.json. Ceilings only fall: `--lower` writes smaller counts,
 * and never larger ones. `--list NAME` prints every place of one pattern. `--root FOLDER` counts in
 * another repository, and `--ceilings FILE` compares with another file.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const options = {
  list: { type: 'string' },
  lower: { type: 'boolean' },
  root: { type: 'string', default: fileURLToPath(new URL('../../', import.meta.url)) },
  ceilings: { type: 'string', default: fileURLToPath(new URL('ceilings.json', import.meta.url)) },
};
const { list, lower, root: folder, ceilings: ceilingsFile } = parseArgs({ options }).values;
const root = pathToFileURL(`${folder}/`);

/**
 * Each pattern by name: what finds it in one sentence of prose, and what to write in its place.
 * Every match counts.
 */
const patterns = {
  'headless subject': {
    find: /^(?:What|Who|Whoever|Whatever|Of|Where|Nothing|Nobody|None)\b/g,
    instead: 'start with the actor, or with the name of the API',
  },
  behind: { find: /\bbehind\b/gi, instead: "'after' for time" },
  beside: {
    find: /\bbeside\b/gi,
    instead: "'next to', 'while', 'in addition to', 'compared with'",
  },
  'so many': {
    find: /\bso (?:many|much|long)\b/gi,
    instead: 'the number, or the name of the option',
  },
  told: {
    find: /\b(?:told|tells?)\b/gi,
    instead: "the mechanism's verb: throws, rejects, returns, emits, logs",
  },
  'a negated noun': {
    find: /\b(?:is|are|was|were|be) (?:no|none)\b/gi,
    instead: 'the positive form',
  },
  semicolon: { find: /;/g, instead: 'two sentences' },
  'longer than 30 words': {
    find: (sentence) => (sentence.split(/\s+/).length > 30 ? 1 : 0),
    instead: 'one idea a sentence',
  },
  'a table without a header': { find: null, instead: 'a word above each column' },
};

const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' });
const files = git('ls-files', 'src', 'actors', 'native', 'docs', 'README.md', 'CONTRIBUTING.md')
  .split('\n')
  .filter((file) => /\.(?:ts|mjs|cpp|hpp|h|gk|md)$/.test(file))
  // Excludes a list of paths, and a list of names from other projects.
  .filter((file) => !['docs/moved.md', 'docs/extras/names.md'].includes(file));

/**
 * Yields the paragraphs of a source's comments, each with its first line's number. Skips the code
 * of an `@example`.
 */
function* paragraphsOfComments(lines) {
  let text = '';
  let at = 0;
  let inExample = false;
  for (const [i, line] of [...lines, ''].entries()) {
    const comment = /^\s*(?:\/\*\*?|\*\/?|\/\/\/?)(?: (.*?))?(?:\s*\*\/)?$/.exec(line)?.[1];
    const begins =
      /^\s*\/\*/.test(line) || /^\s*(?:[-*@|]|\d+\.|[A-Z]\w*-\d+ )/.test(comment ?? '');
    if (text && (!comment || begins)) {
      yield { text, at };
      text = '';
    }
    if (/^@/.test(comment ?? '')) inExample = /^@example/.test(comment);
    if (comment === undefined || /\*\//.test(line)) inExample = false;
    if (!comment || inExample || /^\s*\|/.test(comment)) continue;
    if (!text) at = i + 1;
    text += ` ${comment}`;
  }
}

/** Yields the paragraphs and list items of a page. Skips code and the cells of tables. */
function* paragraphsOfPage(lines) {
  let text = '';
  let at = 0;
  let inCode = false;
  for (const [i, line] of [...lines, ''].entries()) {
    const fence = /^\s*```/.test(line);
    const isText = !inCode && !fence && !/^\s*(?:\||#|<|$)/.test(line);
    if (text && (!isText || /^\s*(?:[-*]|\d+\.) /.test(line))) {
      yield { text, at };
      text = '';
    }
    if (fence) inCode = !inCode;
    if (!isText) continue;
    if (!text) at = i + 1;
    text += ` ${line.trim()}`;
  }
}

/** Yields the sentences of a text without code, links and markup. */
function* sentencesOf(text) {
  const plain = text
    .replace(/`[^`]*`/g, 'code')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/^\s*(?:[-*]|\d+\.|@\w+|[A-Z]\w*-\d+)\s+/, '')
    .replaceAll('**', '')
    .trim();
  yield* plain.split(/(?<=[.!?])\s+(?=\p{Lu}|code)/u).filter((sentence) => /\w/.test(sentence));
}

const counts = Object.fromEntries(Object.keys(patterns).map((name) => [name, 0]));
const places = Object.fromEntries(Object.keys(patterns).map((name) => [name, []]));
for (const file of files) {
  const lines = readFileSync(new URL(file, root), 'utf8').split('\n');
  const isPage = file.endsWith('.md');
  for (const { text, at } of isPage ? paragraphsOfPage(lines) : paragraphsOfComments(lines))
    for (const sentence of sentencesOf(text))
      for (const [name, { find }] of Object.entries(patterns)) {
        if (find === null) continue;
        const found =
          typeof find === 'function' ? find(sentence) : (sentence.match(find)?.length ?? 0);
        if (found === 0) continue;
        counts[name] += found;
        places[name].push(`${file}:${at}: ${sentence}`);
      }
  for (const [i, line] of isPage ? lines.entries() : [])
    if (/^\|(?:\s*\|)+\s*$/.test(line)) {
      counts['a table without a header']++;
      places['a table without a header'].push(`${file}:${i + 1}`);
    }
}

const ceilings = JSON.parse(readFileSync(ceilingsFile, 'utf8'));
if (list !== undefined) {
  if (!Object.hasOwn(places, list))
    throw new Error(`--list takes one of: ${Object.keys(patterns).join(', ')}`);
  if (places[list].length > 0) console.log(places[list].join('\n'));
} else if (lower) {
  const lowered = Object.entries(counts).map(([each, count]) => [
    each,
    Math.min(count, ceilings[each] ?? count),
  ]);
  writeFileSync(ceilingsFile, `${JSON.stringify(Object.fromEntries(lowered), null, 2)}\n`);
} else {
  for (const [each, count] of Object.entries(counts))
    if (count > ceilings[each]) {
      console.error(
        `style: '${each}' occurs ${count} times, ${ceilings[each]} are allowed: write ${patterns[each].instead}. ` +
          `node test/language/count.mjs --list '${each}' prints the places.`,
      );
      process.exitCode = 1;
    }
}
