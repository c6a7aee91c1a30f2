/**
 * Tests that writers replace a file completely or not at all. After any failure the old file is
 * unchanged, and no other file is left in the folder.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import {
  type NamedTensors,
  readNpz,
  readSafetensors,
  writeNpz,
  writeSafetensors,
} from '../../src/entries/formats.ts';
import { rejection } from '../rig/refusal.ts';
import { expectSame, inFolder, tensor } from './tensors.ts';

const door = fileURLToPath(new URL('../../src/entries/formats.js', import.meta.url));
const kinds = {
  Safetensors: [writeSafetensors, readSafetensors],
  Npz: [writeNpz, readNpz],
} as const;
const large: NamedTensors = { x: tensor('float32', [100_000]) };

for (const [kind, [write, read]] of Object.entries(kinds)) {
  describe(`write${kind}() and read${kind}(): files on disk`, () => {
    const readBack = async (path: string) =>
      kind === 'Npz' ? readNpz(path) : (await readSafetensors(path)).tensors;

    it('writing keeps the old file and leaves no other file when the disk is full', () =>
      inFolder(
        async (folder) => {
          const path = join(folder, 'w');
          writeFileSync(path, 'old');
          // The process's file size limit is 64 KiB, so the system refuses larger writes.
          const program = `
          const { write${kind}: write } = await import(${JSON.stringify(door)});
          const data = new Float32Array(100_000);
          await write(process.argv[1], { x: { dtype: 'float32', shape: [data.length], data } }).catch((error) => {
            console.log(error.code, error.cause.code, error.message);
          });`;
          const { stdout, stderr } = spawnSync(
            'sh',
            [
              '-c',
              'ulimit -f 128; exec "$@"',
              'sh',
              process.execPath,
              '--input-type=module',
              '-e',
              program,
              path,
            ],
            { encoding: 'utf8' },
          );
          expect(stdout, stderr).to.match(
            /^ERR_HOTSLOT_UNAVAILABLE EFBIG write\w+: '.*\/w': EFBIG: file too large/,
          );
          expect(readFileSync(path, 'utf8')).to.equal('old');
        },
        ['w'],
      ));

    it('writing rejects a path that cannot be written, and leaves no file', () =>
      inFolder(
        async (folder) => {
          mkdirSync(join(folder, 'taken/full'), { recursive: true });
          writeFileSync(join(folder, 'file'), '');
          const cases: [string, string][] = [
            ['taken', 'EISDIR'],
            ['file/w', 'ENOTDIR'],
            ['nowhere/w', 'ENOENT'],
            [`${'n'.repeat(300)}`, 'ENAMETOOLONG'],
          ];
          for (const [name, code] of cases) {
            const error = await rejection(write(join(folder, name), large));
            expect([error.code, (error.cause as NodeJS.ErrnoException).code], name).to.deep.equal([
              'ERR_HOTSLOT_UNAVAILABLE',
              code,
            ]);
            expect(error.message).to.include(`write${kind}: '${join(folder, name)}': ${code}`);
          }
        },
        ['file', 'taken'],
      ));

    it('writing keeps the old file when the tensors are invalid', () =>
      inFolder(
        async (folder) => {
          const path = join(folder, 'w');
          writeFileSync(path, 'old');
          await rejection(
            write(path, {
              ...large,
              y: { dtype: 'float32', shape: [2], data: new Float32Array(1) },
            }),
          );
          expect(readFileSync(path, 'utf8')).to.equal('old');
        },
        ['w'],
      ));

    it('concurrent writes of one file leave one complete file', () =>
      inFolder(
        async (folder) => {
          const path = join(folder, 'w');
          const theirs = Array.from({ length: 8 }, (_, i) => ({ x: tensor('int32', [50_000], i) }));
          await Promise.all(theirs.map((each) => write(path, each)));
          const found = await readBack(path);
          const whose = theirs.findIndex(({ x }) => x.data[0] === found.x?.data[0]);
          expectSame(found, theirs[whose] as NamedTensors);
        },
        ['w'],
      ));

    it('writing stores the tensors as they were at the call when the record changes later', () =>
      inFolder(async (folder) => {
        const shape = [100_000];
        const tensors: Record<string, NamedTensors[string]> = {
          x: { ...(large.x as NamedTensors[string]), shape },
        };
        const promise = write(join(folder, 'w'), tensors);
        shape[0] = 3;
        delete tensors.x;
        await promise;
        expectSame(await readBack(join(folder, 'w')), large);
      }));

    it('writing replaces a symbolic link and keeps its target', () =>
      inFolder(
        async (folder) => {
          writeFileSync(join(folder, 'first'), 'old');
          symlinkSync('first', join(folder, 'latest'));
          await write(join(folder, 'latest'), large);
          expect(readFileSync(join(folder, 'first'), 'utf8')).to.equal('old');
          expectSame(await readBack(join(folder, 'latest')), large);
        },
        ['first', 'latest'],
      ));

    it('reading rejects a missing file with the error of the system, and rejects a folder or device', () =>
      inFolder(async (folder) => {
        const missing = await rejection(read(join(folder, 'missing')));
        expect([missing.code, missing.message]).to.deep.equal([
          'ERR_HOTSLOT_UNAVAILABLE',
          `read${kind}: '${join(folder, 'missing')}': ENOENT: no such file or directory, stat '${join(folder, 'missing')}'`,
        ]);
        expect((await rejection(read(folder))).message).to.match(/: it is not a file$/);
        expect((await rejection(read('/dev/zero'))).message).to.match(/: it is not a file$/);
      }));

    it('reading and writing reject invalid paths', async () => {
      const wrong: [unknown, RegExp][] = [
        [undefined, /^read\w+ takes a path or a file: URL, got undefined$/],
        ['', /got ''$/],
        ['a\0b', /takes a path or a file: URL/],
        [Buffer.from('x'), /got a Buffer of 1$/],
        [
          new URL('https://example.org/w'),
          /takes a path or a file: URL: The URL must be of scheme file$/,
        ],
      ];
      for (const [path, says] of wrong) {
        const error = await rejection(read(path as string));
        expect(error.message).to.match(says);
        expect(error.code).to.equal('ERR_HOTSLOT_ARGUMENT');
        expect((await rejection(write(path as string, {}))).code).to.equal('ERR_HOTSLOT_ARGUMENT');
      }
    });
  });
}
