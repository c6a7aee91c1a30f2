/**
 * Tests a thread in which an addon fails to load. Hotslot must not load the addon from another path
 * instead. A second core would not know the handles of the first one, and would start a second
 * thread pool.
 */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { checkLayout } from '../../src/base/addon.ts';
import { openDevice } from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';

/**
 * A program for a thread. Its first load of the library fails, as if there were no memory. Then it
 * tries again.
 */
const programFor = (library: string) => `
  const { parentPort } = require('node:worker_threads');
  const real = process.dlopen;
  process.dlopen = (module, path, ...rest) => {
    if (!path.endsWith('/${library}')) return real.call(process, module, path, ...rest);
    process.dlopen = real;
    throw Object.assign(new Error('cannot allocate memory'), { code: 'ERR_DLOPEN_FAILED' });
  };
  import(${JSON.stringify(new URL('../../src/index.js', import.meta.url).href)}).then(({ openDevice }) => {
    const tries = [1, 2].map(() => {
      try {
        return openDevice('host:0').name;
      } catch ({ code, message }) {
        return { code, message };
      }
    });
    parentPort.postMessage(tries);
  });
`;

describe('device/loading', () => {
  it('checkLayout() throws if an addon was built with another memory layout, and names the field', () => {
    checkLayout('system', 'bells', { count: 0 }, { count: 0, parked: 1 });
    const { code, message } = refusal(() =>
      checkLayout('system', 'bells', { count: 0, parked: 1 }, { count: 0, parked: 2 }),
    );
    expect([code, message]).to.deep.equal([
      'ERR_HOTSLOT_ADDON',
      "Hotslot's native addon 'system' is from another build: parked of bells is 2 in the addon and 1 in TypeScript. Build it again: npx hotslot build",
    ]);
  });

  for (const name of ['system', 'device'])
    (name === 'system' ? it : itAll)(
      `${name}: openDevice() throws in a thread whose dlopen fails, and succeeds on the second call`,
      async function () {
        if (process.versions.bun) this.skip(); // Bun does not load addons through process.dlopen.
        expect(openDevice('host:0').name).to.equal('host:0');
        const thread = new Worker(programFor(`${name}.node`), { eval: true });
        const [[refused, then]] = (await once(thread, 'message')) as [
          [{ code: string; message: string }, string],
        ];
        expect(refused.code).to.equal('ERR_HOTSLOT_ADDON');
        expect(refused.message).to.match(
          new RegExp(
            `^Hotslot's native addon '${name}', which this process loaded from .*${name}\\.node, could not start in this thread: cannot allocate memory$`,
          ),
        );
        expect(then).to.equal('host:0');
        await thread.terminate();
      },
    );

  itAll(
    'the error of a failed dlopen includes a binary path with non-ASCII characters',
    function () {
      if (process.versions.bun) this.skip(); // as above
      const folder = mkdtempSync(join(tmpdir(), 'hotslot-größe-'));
      try {
        for (const name of ['system.node', 'device.node'])
          copyFileSync(
            fileURLToPath(new URL(`../../../build/Release/${name}`, import.meta.url)),
            `${folder}/${name}`,
          );
        const source = `
        import { Worker } from 'node:worker_threads';
        import { openDevice } from ${JSON.stringify(new URL('../../src/index.js', import.meta.url).href)};
        openDevice('host:0');
        const thread = new Worker(${JSON.stringify(programFor('device.node'))}, { eval: true, execArgv: [] });
        thread.on('message', ([refused]) => console.log(refused.message));`;
        const { stdout, stderr } = spawnSync(
          process.execPath,
          ['--input-type=module', '-e', source],
          {
            env: { ...process.env, HOTSLOT_ADDONS: folder },
            encoding: 'utf8',
          },
        );
        expect(stdout, stderr).to.match(
          /^Hotslot's native addon 'device', which .*größe.*, could not start in this thread: /,
        );
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );
});
