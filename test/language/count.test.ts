/** Tests the script that counts the patterns of docs/contributing/style.md. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const count = (...args: string[]) =>
  spawnSync(process.execPath, [join(root, 'test/language/count.mjs'), ...args], {
    cwd: root,
    encoding: 'utf8',
  });

describe('count.mjs', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-language-'));
  after(() => rmSync(folder, { recursive: true, force: true }));
  const ceilings = JSON.parse(
    readFileSync(join(root, 'test/language/ceilings.json'), 'utf8'),
  ) as Record<string, number>;

  it('passes with the ceilings of this repository', () => {
    const { status, stderr } = count();
    expect([status, stderr]).to.deep.equal([0, '']);
  });

  const repository = () => {
    const folder = mkdtempSync(join(tmpdir(), 'hotslot-language-'));
    mkdirSync(join(folder, 'src'));
    mkdirSync(join(folder, 'docs'));
    const thirtyOne = Array.from({ length: 31 }, () => 'word').join(' ');
    writeFileSync(
      join(folder, 'src/a.ts'),
      [
        '/** What is given is ignored. */',
        'const first = 1;',
        '// The tick is behind the copy. It runs beside it. It waits so long.',
        '/**',
        ' * The caller is told. There are no names; this sentence has a semicolon.',
        ' * @example',
        ' * const behind = 1; // code of an example is not counted',
        ' */',
        'const behind = 2; // comments after code are not counted: behind',
      ].join('\n'),
    );
    writeFileSync(
      join(folder, 'docs/a.md'),
      `# A page\n\nIt has ${thirtyOne}.\n\n| | |\n|---|---|\n| behind | a |\n`,
    );
    for (const args of [
      ['init', '-q'],
      ['add', '.'],
    ])
      spawnSync('git', args, { cwd: folder });
    return folder;
  };

  it('fails with the pattern, both numbers and the remedy when a count exceeds its ceiling', () => {
    const root = repository();
    try {
      const file = join(folder, 'ceilings.json');
      const zeros = Object.fromEntries(Object.keys(ceilings).map((name) => [name, 0]));
      writeFileSync(file, JSON.stringify(zeros));
      const { status, stderr } = count('--root', root, '--ceilings', file);
      expect(status).to.equal(1);
      const lines = stderr.trimEnd().split('\n');
      for (const [i, name] of Object.keys(ceilings).entries())
        expect(lines[i]).to.match(
          new RegExp(
            `^style: '${name}' occurs 1 times, 0 are allowed: write .*\\. node test/language/count\\.mjs --list '${name}' prints the places\\.$`,
          ),
        );
      expect(lines).to.have.length(Object.keys(ceilings).length);
    } finally {
      rmSync(root, { recursive: true, force: true });
    }
  });

  it('prints every place of a pattern for --list, and lowers ceilings for --lower', () => {
    const root = repository();
    try {
      expect(count('--root', root, '--list', 'behind').stdout).to.equal(
        'src/a.ts:3: The tick is behind the copy.\n',
      );
      const file = join(folder, 'lowered.json');
      writeFileSync(file, JSON.stringify({ ...ceilings, behind: 7, told: 0 }));
      expect(count('--root', root, '--ceilings', file, '--lower').status).to.equal(0);
      const lowered = JSON.parse(readFileSync(file, 'utf8'));
      expect([lowered.behind, lowered.told]).to.deep.equal([1, 0]);
    } finally {
      rmSync(root, { recursive: true, force: true });
    }
  });
});
