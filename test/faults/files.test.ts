/**
 * Tests the files that are written next to checkpoints, with each call that changes a file failing
 * once. The write must reject with the error's name and leave a complete file, and the next write
 * must succeed.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { buildFaultShim } from '../checkpoint/shim.ts';
import { withFastFolder } from '../rig/fast-folder.ts';
import type { Written } from './files-child.ts';

const CHILD = fileURLToPath(new URL('./files-child.js', import.meta.url));
const words = { 'fail-io': 'EIO', 'fail-full': 'ENOSPC' } as const;

describe('writes of dumps, tensors and event files', () => {
  let folder: string;
  let shim: string | null;
  before(function () {
    folder = mkdtempSync(join(tmpdir(), 'hotslot-shim-'));
    shim = buildFaultShim(folder);
    if (shim === null) this.skip(); // buildFaultShim() has printed why
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('reject, keep complete files and succeed the next time when a system call fails', () =>
    withFastFolder((mine) => {
      const env = { ...process.env, LD_PRELOAD: shim!, FAULT_FOLDER: mine };
      const { stdout, stderr, status } = spawnSync(
        process.execPath,
        ['--no-warnings', CHILD, mine],
        {
          env,
          encoding: 'utf8',
        },
      );
      expect(status, stderr).to.equal(0);
      const all = stdout.trim().split('\n');
      const told = all.map((line) => JSON.parse(line) as Written);
      expect(new Set(told.map(({ kind }) => kind)).size).to.equal(5);
      // Five calls can fail: the file is created, written, flushed and renamed, and its folder is
      // flushed.
      const calls = (kind: string) =>
        told.filter((each) => each.kind === kind && each.mode === 'fail-io').length;
      for (const kind of ['rows.npz', 'steps.npz', 'tensors.npz', 'x.safetensors'])
        expect(calls(kind), kind).to.be.at.least(5);
      expect(calls('events')).to.be.at.least(4);
      const wrong = told.filter(
        ({ mode, error, whole, left, later }) =>
          !whole ||
          left.length > 0 ||
          !later ||
          error?.code !== 'ERR_HOTSLOT_UNAVAILABLE' ||
          !error.message.includes(words[mode as keyof typeof words]),
      );
      expect(wrong).to.deep.equal([]);
    }));
});
