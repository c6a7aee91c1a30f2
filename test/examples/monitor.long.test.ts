/**
 * Tests `npm start -- --monitor 0`: a browser can open the printed address while the example
 * trains.
 */
import { expect } from 'chai';
import { run } from '../cli/run-command.ts';
import { launch } from '../monitor/chromium.ts';
import { readExposition } from '../monitor/exposition.ts';
import { itAll } from '../rig/setting.ts';

/** Trains until `look` has inspected the page. Returns the exit code. */
async function lookedAt(look: (url: string) => Promise<void>): Promise<number | null> {
  let looking: Promise<void> | undefined;
  const args = ['--monitor', '0', '--seed', '3', '--device', 'host:0', '--max-seconds', '600'];
  const { code, stderr } = await run('examples/cartpole-dqn/main.js', args, {
    onStderr: (text, interrupt) => {
      const [, url] = /live page: (\S+)\n/.exec(text) ?? [];
      if (url) looking ??= look(url).finally(interrupt);
    },
  });
  await looking;
  expect(stderr).to.match(/live page: http:\/\/127\.0\.0\.1:\d+\/\n/);
  return code;
}

describe('cartpole-dqn example with --monitor', () => {
  itAll(
    'serves the page and the metrics during the run, and closes the server at its end',
    async () => {
      let last = '';
      const code = await lookedAt(async (url) => {
        last = url;
        const page = await (await fetch(url)).text();
        expect(page).to.match(/^<!doctype html>/i);
        const metrics = readExposition(await (await fetch(`${url}metrics`)).text());
        expect(metrics.get('hotslot_failed')?.samples).to.deep.equal([{ labels: {}, value: 0 }]);
        expect(metrics.get('hotslot_waiting')?.samples).to.have.length(6);
        expect(metrics.get('hotslot_buffer_capacity')?.samples[0]?.value).to.be.above(0);
      });
      expect(code).to.equal(130);
      expect(await fetch(last).catch((error: Error) => error.message)).to.equal('fetch failed');
    },
  );

  itAll('shows the title and the loss chart of the run in a browser', async function () {
    const browser = await launch(this);
    try {
      const code = await lookedAt(async (url) => {
        const page = await browser.newPage();
        await page.goto(url);
        await page.waitForSelector('body[data-connection=live]');
        await page.waitForSelector('[data-tag="train/loss"] canvas');
        expect(await page.textContent('h1')).to.equal('CartPole, seed 3');
        await page.close();
      });
      expect(code).to.equal(130);
    } finally {
      await browser.close();
    }
  });
});
