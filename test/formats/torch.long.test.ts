/**
 * Runs the JavaScript and the Python code of docs/how-to/export-a-model.md, and tests that both
 * print the same values. Needs torch.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { itAll } from '../rig/setting.ts';
import { inFolder } from './tensors.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
/** Debian's Python, which has torch as a package. */
const PYTHON = '/usr/bin/python3';

describe('torch', () => {
  itAll(
    'reads weights as docs/how-to/export-a-model.md shows, and computes the values of the policy',
    function () {
      if (spawnSync(PYTHON, ['-c', 'import torch']).status !== 0) {
        console.log(`      left out: ${PYTHON} has no torch (apt-get install python3-torch)`);
        this.skip();
      }
      return inFolder(async (folder) => {
        const page = readFileSync(join(root, 'docs/how-to/export-a-model.md'), 'utf8');
        const block = (language: string) =>
          new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, 'ms').exec(page)?.[1] ?? '';
        mkdirSync(join(folder, 'node_modules'));
        symlinkSync(root, join(folder, 'node_modules/hotslot'));
        writeFileSync(join(folder, 'write.mjs'), block('js'));
        writeFileSync(join(folder, 'read.py'), block('python'));
        const numbers = (command: string, file: string) => {
          const { status, stdout, stderr } = spawnSync(command, [file], {
            cwd: folder,
            encoding: 'utf8',
          });
          expect(status, stderr).to.equal(0);
          return (
            stdout.replace(/Float32Array\(\d+\)/, '').match(/-?\d+\.\d+(?:e-?\d+)?/g) ?? []
          ).map(Number);
        };
        const [ours, torchs] = [numbers(process.execPath, 'write.mjs'), numbers(PYTHON, 'read.py')];
        expect([ours.length, torchs.length]).to.deep.equal([2, 2]);
        ours.forEach((value, i) => {
          expect(value).to.be.closeTo(torchs[i]!, 1e-6);
          expect(value).to.not.equal(0);
        });
      });
    },
  );
});
