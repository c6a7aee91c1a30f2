/**
 * Tests `npm run browser`: which files its server delivers and rejects. In a browser, a trained
 * policy must keep the pole up.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { parseCommandLine } from '../../examples/browser/options.ts';
import { convertCheckpoint } from '../../examples/browser/policy.ts';
import { serve } from '../../examples/browser/server.ts';
import { encodeOnnx, writeSafetensors } from '../../src/entries/formats.ts';
import { DqnLearner, DqnPolicy } from '../../src/entries/learner.ts';
import { openDevice } from '../../src/index.ts';
import { run } from '../cli/run-command.ts';
import { inFolder } from '../formats/tensors.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { CHROMIUM, headless, homeIn, Page } from './browser-rig.ts';

const main = fileURLToPath(new URL('../../examples/browser/main.js', import.meta.url));
const sources = fileURLToPath(new URL('../../../examples/browser/', import.meta.url));

interface Answer {
  status: number;
  type: string | undefined;
  body: Buffer;
}

/** Requests the path as it is. fetch() would normalize it. */
function ask(address: string, path: string, method = 'GET'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(address, { path, method, agent: false }, (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('end', () => {
        const { statusCode: status = 0, headers } = response;
        resolve({ status, type: headers['content-type'], body: Buffer.concat(parts) });
      });
    });
    sent.on('error', reject);
    sent.end();
  });
}

describe('browser example', () => {
  it('serves the files of the page on 127.0.0.1, and rejects other requests and a used port', () =>
    inFolder(async (folder) => {
      const model = join(folder, 'x.onnx');
      writeFileSync(model, 'a model');
      const { server, address } = await serve(model, 0);
      try {
        expect(address).to.match(/^http:\/\/127\.0\.0\.1:\d+\/$/);
        const page = await ask(address, '/');
        expect([page.status, page.type]).to.deep.equal([200, 'text/html; charset=utf-8']);
        expect((await ask(address, '/policy.onnx?again')).body.toString()).to.equal('a model');
        // Every file that the page and its modules name is delivered.
        const texts = ['index.html', 'page.mjs', 'drawing.mjs'].map((name) =>
          readFileSync(join(sources, name), 'utf8'),
        );
        const named = new Set(
          [
            ...texts.join().matchAll(/(?:src|href|from|wasm:|create\()[= ]?['"](\/[^'"]+)['"]/g),
          ].map(([, path]) => path!),
        );
        expect(named.size).to.be.at.least(7);
        for (const path of named)
          expect((await ask(address, path, 'HEAD')).status, path).to.equal(200);
        for (const [path, method, status] of [
          ['/../package.json', 'GET', 404],
          ['/%2e%2e/package.json', 'GET', 404],
          ['/__proto__', 'GET', 404],
          ['/policy.onnx', 'PUT', 405],
        ] as const)
          expect((await ask(address, path, method)).status, `${method} ${path}`).to.equal(status);
        const port = Number(new URL(address).port);
        expect((await rejection(serve(model, port))).message).to.match(
          /^--port \d+ cannot be had: .*EADDRINUSE/,
        );
      } finally {
        server.closeAllConnections();
        server.close();
      }
    }));

  itAll('rejects invalid options with one sentence and exit code 2', async () => {
    for (const [args, says] of [
      [['--port', '70000'], "--port must be a whole number from 0 to 65535, got '70000'"],
      [['--policy='], "--policy must name a file, got ''"],
      [['--polcy', 'x'], "unknown option '--polcy'"],
    ] as const)
      expect(refusal(() => parseCommandLine(args)).message).to.equal(says);
    expect(parseCommandLine(['--help'])).to.equal(null);
    const { code, stderr } = await run('examples/browser/main.js', ['--port', 'x']);
    expect([code, stderr]).to.deep.equal([
      2,
      "browser: --port must be a whole number from 0 to 65535, got 'x'; see --help\n",
    ]);
  });

  it('convertCheckpoint() writes the ONNX model of a saved learner, and rejects other files', () =>
    inFolder(async (folder) => {
      using device = openDevice('host:0');
      using learner = new DqnLearner(device, {
        obsDim: 4,
        actions: 2,
        hidden: [7, 5],
        batchSize: 4,
        seed: 5,
      });
      const [from, to] = [join(folder, 'dqn.safetensors'), join(folder, 'x.onnx')];
      await writeSafetensors(from, await learner.state());
      await convertCheckpoint(from, to);
      const policy = new DqnPolicy({ obsDim: 4, actions: 2, hidden: [7, 5] }).load(
        await learner.parameters.toArray(),
      );
      expect(readFileSync(to).equals(encodeOnnx(policy))).to.equal(true);
      using other = new DqnLearner(device, { obsDim: 3, actions: 2, hidden: [7], batchSize: 4 });
      await writeSafetensors(from, await other.state());
      expect((await rejection(convertCheckpoint(from, to))).message).to.include(
        "'online.0.weight' must be float32 [7,4], is float32 [7,3]",
      );
      expect((await rejection(convertCheckpoint(join(folder, 'none'), to))).message).to.match(
        /^--checkpoint .*ENOENT/,
      );
    }));

  /** Serves the page, and calls `use` with its folder and address. */
  async function served(use: (folder: string, address: string) => Promise<void>): Promise<void> {
    await inFolder(async (folder) => {
      const model = join(folder, 'policy.onnx');
      const child = spawn(process.execPath, [main, '--policy', model, '--quiet'], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
      try {
        const address = await new Promise<string>((resolve, reject) => {
          child.stdout
            .setEncoding('utf8')
            .once('data', (text: string) => resolve(/http:\S+/.exec(text)?.[0] ?? ''));
          child.once('exit', (code) => reject(new Error(`it ended with ${code}`)));
        });
        await use(folder, address);
      } finally {
        child.kill('SIGINT');
      }
      expect(await ended).to.equal(0);
    });
  }

  function needsChromium(context: Mocha.Context): void {
    if (existsSync(CHROMIUM)) return;
    console.log(`      left out: there is no ${CHROMIUM} (apt-get install chromium)`);
    context.skip();
  }

  itAll('trains a policy that balances the pole for 500 steps in a browser', function () {
    needsChromium(this);
    return served(async (folder, address) => {
      // The browser's timers run as fast as possible. The budget covers two episodes of ten seconds
      // with the pauses.
      const args = [...headless(folder), '--virtual-time-budget=24000', '--dump-dom', address];
      const how = { encoding: 'utf8', timeout: 110_000, env: homeIn(folder) } as const;
      const { status, stdout, stderr } = spawnSync(CHROMIUM, args, how);
      expect(status, stderr).to.equal(0);
      const text = (id: string) => new RegExp(`id="${id}"[^>]*>([^<]*)<`).exec(stdout)?.[1];
      expect([text('episodes'), text('returns'), text('mean')]).to.deep.equal([
        '2',
        '500, 500',
        '500.0',
      ]);
      expect(text('status')).to.equal('Episode 2: the pole stood for all 500 steps.');
    });
  });

  itAll(
    'the P key pauses the page, and ArrowRight pushes the cart until the episode ends',
    function () {
      needsChromium(this);
      return served(async (folder, address) => {
        const page = await Page.open(folder, address);
        try {
          expect(await page.text('status', /plays|cannot/)).to.equal(
            'The policy plays. Push the cart.',
          );
          await page.text('return', /^[1-9]/);
          await page.press('p');
          expect(await page.text('pause', /go on/)).to.equal('go on');
          expect(
            await page.evaluate("document.getElementById('pause').getAttribute('aria-pressed')"),
          ).to.equal('true');
          await page.press('p');
          await page.text('pause', /pause/);
          for (let i = 0; i < 12; i++) await page.press('ArrowRight');
          expect(await page.text('status', /Episode 1/)).to.match(
            /(the pole fell|the cart left the track) after \d+ steps\./,
          );
        } finally {
          await page.close();
        }
      });
    },
  );
});
