/**
 * Tests that files and checkpoints of earlier releases are read bit for bit.
 * test/fixtures/saved/make.mjs wrote them. Its `expected.json` holds what that release reads: the
 * contents, and the draws of the ticks after a restore.
 */
import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import type { train as Train } from '../../src/entries/collect.ts';
import { Fields } from '../rig/protobuf.ts';
import { inFolder } from './rig.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const saved = join(root, 'test/fixtures/saved');
const load = (name: string) => import(join(saved, name));

const versions = readdirSync(saved, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

/**
 * Returns the inputs, outputs and weights of a model. Constants and operators may differ between
 * releases.
 */
function faceOf(model: Uint8Array): object {
  const graph = new Fields(model).message(7);
  const weights = graph.messages(5).filter((each) => /^\d+\.(weight|bias)$/.test(each.text(8)));
  const bits = Object.fromEntries(weights.map((each) => [each.text(8), each.one(9)]));
  return { inputs: graph.all(11), outputs: graph.all(12), bits };
}

for (const version of versions)
  describe(`files of release ${version}`, () => {
    const folder = join(saved, version);
    const expected = JSON.parse(readFileSync(join(folder, 'expected.json'), 'utf8'));
    /** Calls `use` with a copy of the folder, because a reader writes a lock into the folder. */
    const inCopy = (use: (copy: string) => Promise<void>) =>
      inFolder((copy) => {
        cpSync(folder, copy, { recursive: true });
        return use(copy);
      });

    for (const name of Object.keys(expected))
      it(`${name} has the same contents as when release ${version} reads the file`, () =>
        inCopy(async (copy) => {
          const [{ entriesOf }, { factsOf }] = await Promise.all([
            load('entries.mjs'),
            load('facts.mjs'),
          ]);
          const { hotslot } = await entriesOf(root);
          expect(await factsOf(hotslot, copy, name)).to.deep.equal(expected[name]);
        }));

    it('ONNX models have the inputs, outputs and weights of newly written models', async () => {
      const [{ entriesOf }, { modelsOf }] = await Promise.all([
        load('entries.mjs'),
        load('facts.mjs'),
      ]);
      const models: Record<string, Uint8Array> = await modelsOf(
        (await entriesOf(root)).hotslot,
        folder,
      );
      for (const [name, model] of Object.entries(models))
        expect(faceOf(model), name).to.deep.equal(faceOf(readFileSync(join(folder, name))));
      expect(Object.keys(models)).to.deep.equal(
        readdirSync(folder).filter((name) => name.endsWith('.onnx')),
      );
    });

    it('train() resumes the checkpoint', () =>
      inCopy(async (copy) => {
        const [{ entriesOf }, { training }] = await Promise.all([
          load('entries.mjs'),
          load('parts.mjs'),
        ]);
        const { train } = (await entriesOf(root)).hotslot as { train: typeof Train };
        const { extra, statistics } = expected.train;
        const result = await train({
          ...training,
          steps: 440,
          checkpoint: { folder: join(copy, 'train') },
        });
        expect(result.updates).to.equal((440 - training.warmUp) * training.updatesPerStep);
        expect(result.steps).to.be.at.least(statistics.steps);
        expect(result.curve.slice(0, extra.curve.length)).to.deep.equal(extra.curve);
        expect(result.curve.length).to.be.above(extra.curve.length);
      }));
  });
