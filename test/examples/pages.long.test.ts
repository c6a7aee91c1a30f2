/**
 * Tests the documentation pages. Every JavaScript snippet that imports from hotslot runs and prints
 * what its comments promise. Every link has a target, and every npm script exists.
 */
import { spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { type Launch, missingLaunch, mpich, needLaunch, openMpi } from '../ranks/launch.ts';
import { needServer, startServer } from '../remote/server.ts';
import { pagesOfDocs } from '../rig/pages.ts';
import { itAll } from '../rig/setting.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const pages = ['README.md', 'CONTRIBUTING.md', ...pagesOfDocs()];

/** Snippets that contain this name need a server. The environment variable has its URL. */
const SERVER = 'HOTSLOT_REDIS_URL';
/** Snippets that contain this name run as two processes. */
const MPI = 'openMpi';
/**
 * Before each snippet, a page's process prints this text and the snippet's line, so that the output
 * can be assigned.
 */
const SNIPPET = 'snippet of line ';

interface Snippet {
  /**
   * the file name in the comment of its first line, under which other snippets of the page import
   * it, or ''
   */
  name: string;
  line: number;
  code: string;
}

function snippetsOf(page: string): Snippet[] {
  const text = readFileSync(join(root, page), 'utf8');
  return [...text.matchAll(/^```js\n(.*?)^```$/gms)]
    .map(({ index, 1: code = '' }) => {
      const name = /^\/\/ (\S+\.mjs)\n/.exec(code)?.[1] ?? '';
      return { name, code, line: text.slice(0, index).split('\n').length + 1 };
    })
    .filter(({ name, code }) => name !== '' || /^import .* from 'hotslot(?:\/\w+)?';$/m.test(code));
}

const words = (text: string) =>
  text.replaceAll(/\w+Array\(\d+\)/g, '').match(/-?\d+(\.\d+)?|true|false/g) ?? [];

/**
 * Returns the values that comments such as `console.log(…); // 1 2 true` promise. Comments with
 * other words promise no exact output.
 */
const promised = (code: string) =>
  [...code.matchAll(/^\s*console\.log\(.*\); \/\/ ([-\d. ]|true|false)+$/gm)].map(([line]) =>
    words(line.slice(line.lastIndexOf('//'))),
  );

function run(
  folder: string,
  file: string,
  env: NodeJS.ProcessEnv,
  by: Launch | null,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  return new Promise((resolve, reject) => {
    const launched = by
      ? [by.command, ...by.args, '-n', '2', process.execPath]
      : [process.execPath];
    const child = spawn(launched[0]!, [...launched.slice(1), file], {
      cwd: folder,
      env: { ...process.env, ...env, ...by?.env },
    });
    const said = { stdout: '', stderr: '' };
    for (const of of ['stdout', 'stderr'] as const)
      child[of].setEncoding('utf8').on('data', (text: string) => {
        said[of] += text;
      });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, ...said }));
  });
}

describe('documentation pages', () => {
  for (const page of pages) {
    const snippets = snippetsOf(page);
    if (snippets.length === 0) continue;
    // A short run executes only the snippets of the README.
    const take = page === 'README.md' ? it : itAll;
    take(`snippets of ${page} run`, async function () {
      const served = snippets.some(({ code }) => code.includes(SERVER));
      if (served) needServer(this);
      const launches = snippets.some(({ code }) => code.includes(MPI));
      const launcher = [openMpi, mpich].find((each) => missingLaunch(each) === null) ?? null;
      if (launches && launcher === null) needLaunch(this, openMpi);
      const server = served ? await startServer() : null;
      const env = server ? { [SERVER]: server.url } : {};
      const folder = mkdtempSync(join(tmpdir(), 'hotslot-snippets-'));
      try {
        mkdirSync(join(folder, 'node_modules'));
        symlinkSync(root, join(folder, 'node_modules/hotslot'));
        for (const { name, line, code } of snippets)
          writeFileSync(join(folder, name || `${line}.mjs`), code);
        // A snippet that another snippet imports does not run by itself.
        const ran = snippets.filter(
          ({ name }) =>
            name === '' ||
            !snippets.some((other) => other.name !== name && other.code.includes(`./${name}`)),
        );
        // One process runs all snippets of a page in turn. Each snippet for an MPI launcher runs in
        // its own processes.
        const alone = ran.filter(({ code }) => code.includes(MPI));
        const together = ran.filter((each) => !alone.includes(each));
        for (const some of [together, ...alone.map((each) => [each])]) {
          if (some.length === 0) continue;
          const files = some.map(({ name, line }) => ({ line, file: name || `${line}.mjs` }));
          const loads = files.map(
            ({ line, file }) => `console.log('${SNIPPET}${line}');\nawait import('./${file}');`,
          );
          writeFileSync(join(folder, 'page.mjs'), loads.join('\n'));
          const by = alone.includes(some[0]!) ? launcher : null;
          const { code, stdout, stderr } = await run(
            folder,
            by ? files[0]!.file : 'page.mjs',
            env,
            by,
          );
          const said = by ? [`${files[0]!.line}\n${stdout}`] : stdout.split(SNIPPET).slice(1);
          expect([code, stderr], `${page}:${Number.parseInt(said.at(-1) ?? '', 10)}`).to.deep.equal(
            [0, ''],
          );
          expect(said.map((each) => Number.parseInt(each, 10))).to.deep.equal(
            some.map(({ line }) => line),
          );
          for (const [i, { line, code }] of some.entries()) {
            const printed = said[i]!.split('\n').slice(1).map(words);
            for (const numbers of promised(code))
              expect(printed, `${page}:${line}`).to.deep.include(numbers);
          }
        }
      } finally {
        await server?.stop();
        rmSync(folder, { recursive: true });
      }
    });
  }

  it('have at least 30 snippets, on at least 9 pages', () => {
    const counts = pages.map((page) => snippetsOf(page).length);
    expect(counts.filter((count) => count > 0).length).to.be.at.least(9);
    expect(counts.reduce((sum, count) => sum + count)).to.be.at.least(30);
  });

  /** Returns the anchor that GitHub gives to a heading. */
  const anchor = (heading: string) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-');

  it('npm commands on the pages name scripts of package.json', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      scripts: object;
    };
    for (const page of pages) {
      const named = readFileSync(join(root, page), 'utf8').matchAll(
        /\bnpm (?:run ([\w:-]+)|(start|test)\b)/g,
      );
      for (const [command, script, short] of named)
        expect(scripts, `${page}: ${command}`).to.have.property(script ?? short!);
    }
  });

  it('the README has at most 160 lines', () => {
    expect(readFileSync(join(root, 'README.md'), 'utf8').trim().split('\n').length).to.be.at.most(
      160,
    );
  });

  it('links between pages lead to existing files and headings', () => {
    for (const page of pages) {
      const text = readFileSync(join(root, page), 'utf8');
      for (const [link, file = '', heading] of text.matchAll(
        /\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)/g,
      )) {
        const path = file === '' ? page : join(dirname(page), file);
        expect(existsSync(join(root, path)), `${page}: ${link}`).to.equal(true);
        if (heading === undefined) continue;
        const headings = [...readFileSync(join(root, path), 'utf8').matchAll(/^#+ (.*)$/gm)].map(
          ([, of = '']) => anchor(of),
        );
        expect(headings, `${page}: ${link}`).to.include(heading);
      }
    }
  });
});
