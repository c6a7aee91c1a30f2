/**
 * Compares the table of docs/contributing/design/proofs.md with the models: it lists every model
 * and its number of mutations. Each mutation's name must also appear in the model's test file.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { testFile } from '../rig/test-file.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const read = (path: string) => readFileSync(`${root}${path}`, 'utf8');

/** Returns the plain strings of a model's union of mutations. */
function mutationsOf(model: string): string[] {
  const union = /export type \w*Mutation =([\s\S]*?);\n/.exec(read(`test/model/${model}.ts`));
  return [...(union?.[1] ?? '').matchAll(/^ {2}\| (['"])(.*)\1$/gm)].map(
    ([, , text]) => text as string,
  );
}

describe('table of models in proofs.md', () => {
  const design = read('docs/contributing/design/proofs.md');
  const section = /## What is proved\n([\s\S]*?)\n## /.exec(design)?.[1] ?? '';
  const rows = [...section.matchAll(/^\| [^|]*\| [^|]*\| `([a-z-]+)` \| (\d+)/gm)].map(
    ([, model, count]) => [model as string, Number(count)] as const,
  );

  it('names every model that has mutations', () => {
    const models = readdirSync(`${root}test/model`).filter(
      (name) =>
        / Mutation =|Mutation =\n/.test(read(`test/model/${name}`)) && !name.endsWith('.test.ts'),
    );
    expect(rows.map(([model]) => `${model}.ts`).sort()).to.deep.equal(models.sort());
  });

  for (const [model, count] of rows)
    it(`lists ${count} mutations of ${model}, and the test file has each mutation`, () => {
      const mutations = mutationsOf(model);
      expect(mutations.length).to.equal(count);
      const tests = read(
        testFile(`model/${model === 'setup' ? 'model' : model}`).replace(/^dist\/(.*)js$/, '$1ts'),
      );
      for (const each of mutations) expect(tests).to.include(each);
    });
});
