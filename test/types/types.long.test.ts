/**
 * Tests with TypeScript what the types know about fields, batches, scalars, kernels and options.
 * Also compiles the pages' TypeScript. test/package does that with other compilers.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { pagesOfDocs } from '../rig/pages.ts';
import { describeAll, itAll } from '../rig/setting.ts';
import { compiled, root, strict } from './rig.ts';

const consumer = Object.fromEntries(
  readdirSync(strict)
    .filter((name) => name.endsWith('.ts'))
    .map((name) => [name, readFileSync(join(strict, name), 'utf8')]),
);

describeAll('type checks', () => {
  it('pass for a strict consumer with marked errors', () => {
    expect(compiled(consumer)).to.equal('');
  });

  itAll('fail with TS2578 when a marked error is repaired', () => {
    const main = consumer['main.ts'] ?? '';
    const repaired = main.replace('batch.imge;', 'batch.image;');
    expect(repaired).to.not.equal(main);
    expect(compiled({ ...consumer, 'main.ts': repaired })).to.match(
      /^main\.ts\(\d+,\d+\): error TS2578: Unused/,
    );
  });

  it('pass for every ts block of the pages', () => {
    const pages = ['README.md', 'CHANGELOG.md', ...pagesOfDocs()];
    const blocks: Record<string, string> = {};
    for (const page of pages) {
      const text = readFileSync(join(root, page), 'utf8');
      for (const { index, 1: code = '' } of text.matchAll(/^```ts\n(.*?)^```$/gms)) {
        // A block whose first line is a comment with a file name can be imported by other blocks of
        // its page.
        const name =
          /^\/\/ (\S+\.ts)\n/.exec(code)?.[1] ??
          `${text.slice(0, index).split('\n').length + 1}.ts`;
        const path = join(page.replaceAll(/\W/g, '-'), name);
        expect(blocks, `${page}: ${name} twice`).to.not.have.property(path);
        blocks[path] = code;
      }
    }
    expect(Object.keys(blocks).length).to.be.at.least(6);
    expect(compiled(blocks)).to.equal('');
  });
});
