/** The count of patterns that docs/contributing/style.md names. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
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

  it('fails with the pattern, both numbers and the remedy when a count exceeds its ceiling', () => {
    const file = join(folder, 'ceilings.json');
    writeFileSync(file, JSON.stringify({ ...ceilings, behind: 0 }));
    const { status, stderr } = count('--ceilings', file);
    expect(status).to.equal(1);
    expect(stderr).to.match(
      /^style: 'behind' occurs \d+ times, 0 are allowed: write 'after' for time\. node test\/language\/count\.mjs --list 'behind' prints the places\.\n$/,
    );
  });

  it('prints every place of a pattern for --list', () => {
    const { status, stdout } = count('--list', 'behind');
    expect(status).to.equal(0);
    const lines = stdout.trimEnd().split('\n');
    expect(lines.length).to.be.at.least(1);
    for (const line of lines) expect(line).to.match(/^[\w/.-]+:\d+: .*\bbehind\b/i);
  });
});
