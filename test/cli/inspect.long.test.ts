/** Tests what `hotslot inspect` prints about a folder. */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { Checkpoint, ReplayBuffer } from '../../src/index.ts';
import { withFolder } from '../checkpoint/killed.ts';
import { itAll } from '../rig/setting.ts';
import { run } from './run-command.ts';

const MAIN = 'src/cli/main.js';
const inspect = (...args: string[]) => run(MAIN, ['inspect', ...args]);
const weights = { dtype: 'float32', shape: [2, 3], data: new Float32Array(6) } as const;
const learner = { state: () => ({ 'net.0.weight': weights }), loadState() {} };

async function saved(folder: string): Promise<void> {
  const buffer = ReplayBuffer.create({
    capacity: 10,
    fields: { obs: { shape: [4] }, action: { shape: [], dtype: 'int64' } },
  });
  buffer.add({ obs: new Float32Array(12), action: new BigInt64Array(3) });
  await using checkpoint = await Checkpoint.open(folder, {
    buffer,
    learner,
    extra: { note: 'mine' },
  });
  await checkpoint.save();
}

describe('hotslot inspect', () => {
  it('prints the contents of a checkpoint as text and as JSON', () =>
    withFolder(async (folder) => {
      await saved(folder);
      const { code, stdout, stderr } = await inspect(folder);
      expect([code, stderr]).to.deep.equal([0, '']);
      expect(stdout)
        .to.match(/: save 1, before the first tick, taken 20\d\d-/)
        .and.match(
          /^buffer\n {2}kind: ReplayBuffer\n {2}capacity: 10\n {2}fields\n {4}obs: float32\[4\]\n {4}action: int64\[\]/m,
        )
        .and.match(/^learner\n {2}kind: Object\n {2}state\n {4}net\.0\.weight: float32\[2×3\]/m)
        .and.match(/for torch too: .*learner-1\.safetensors/);
      const contents = JSON.parse((await inspect(folder, '--json')).stdout);
      expect(contents).to.include({
        save: 1,
        tick: -1,
        folder,
        learnerFile: join(folder, 'learner-1.safetensors'),
      });
      expect(Object.keys(contents.parts).sort()).to.deep.equal(['buffer', 'extra', 'learner']);
      expect(contents.files.map(({ path }: { path: string }) => path).sort()).to.deep.equal(
        readdirSync(folder)
          .filter((name) => !/^(lock|checkpoint\.json)$/.test(name))
          .map((name) => join(folder, name))
          .sort(),
      );
    }));

  itAll(
    'exits with code 1 when a folder has no valid checkpoint, and with code 2 on wrong usage',
    () =>
      withFolder(async (folder) => {
        const none = await inspect(folder);
        expect([none.code, none.stderr]).to.deep.equal([
          1,
          `hotslot: '${folder}' does not contain a checkpoint\n`,
        ]);
        await saved(folder);
        writeFileSync(join(folder, 'checkpoint.json'), '{}');
        const odd = await inspect(folder);
        expect([odd.code, odd.stderr]).to.deep.equal([
          1,
          `hotslot: '${join(folder, 'checkpoint.json')}' is not the manifest of a checkpoint\n`,
        ]);
        const usage = await inspect();
        expect([usage.code, usage.stderr]).to.deep.equal([
          2,
          'hotslot: inspect takes the folder of a checkpoint; see hotslot --help\n',
        ]);
      }),
  );
});
