/**
 * Tests the live page in Debian's Chromium, controlled by playwright-core: its texts and curves,
 * reconnection, keyboard use, widths and colors, and a thousand hosts. Skipped if Chromium is not
 * installed.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import type { Browser, Page } from 'playwright-core';
import { serveMonitor } from '../../src/entries/monitor.ts';
import { closeAll } from '../pipeline/fixture.ts';
import { describeAll } from '../rig/setting.ts';
import { launch } from './chromium.ts';
import { distant, EVIL, thousand } from './distant.ts';
import { atEnd, counting, endAll, running, served } from './serving.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

describeAll('the live page in a browser', () => {
  let browser: Browser;

  before(async function () {
    browser = await launch(this);
  });
  after(() => browser?.close());
  afterEach(async () => {
    await endAll();
    await closeAll();
  });

  /** Opens the page, and returns it with everything that the browser complained about. */
  async function opened(
    url: string,
    options: Parameters<Browser['newPage']>[0] = {},
  ): Promise<{ page: Page; wrong: string[] }> {
    const page = await browser.newPage(options);
    const wrong: string[] = [];
    page.on('pageerror', (error) => wrong.push(error.message));
    page.on('console', (message) => message.type() === 'error' && wrong.push(message.text()));
    page.on(
      'request',
      (request) => request.url().startsWith(url) || wrong.push(`asked for ${request.url()}`),
    );
    atEnd(() => page.close());
    await page.goto(url);
    await live(page);
    return { page, wrong };
  }
  const live = (page: Page) => page.waitForSelector('body[data-connection=live]');
  const lost = (page: Page) => page.waitForSelector('body[data-connection=lost]');
  const latest = async (page: Page, tag: string) => {
    const label = await page.getAttribute(`[data-tag="${tag}"] canvas`, 'aria-label');
    return Number(/at step ([\d,]+)/.exec(label ?? '')?.[1]?.replaceAll(',', ''));
  };
  const grows = async (page: Page, tag: string) => {
    await page.waitForSelector(`[data-tag="${tag}"] canvas`);
    const before = await latest(page, tag);
    await page.waitForFunction(
      ([tag, before]) => {
        // biome-ignore lint/suspicious/noExplicitAny: the browser's own
        const { document } = globalThis as any;
        const label = document
          .querySelector(`[data-tag="${tag}"] canvas`)
          .getAttribute('aria-label');
        return Number(/at step ([\d,]+)/.exec(label)?.[1]?.replaceAll(',', '')) > Number(before);
      },
      [tag, before] as const,
    );
  };

  it('shows growing curves and the text of waitingFor(), and continues after a reload', async () => {
    const made = await counting();
    const { url } = await served({ pipeline: made, title: 'Watched' });
    const { page, wrong } = await opened(url);
    expect(await page.title()).to.equal('Watched · Hotslot');
    expect(await page.isVisible('#no-curves')).to.equal(true);
    expect(await page.textContent('#waiting-for')).to.equal(made.waitingFor());
    const stop = running(made);
    await grows(page, 'train/count');
    await grows(page, 'speed/updates_per_second');
    expect(await page.textContent('#state')).to.equal('running');
    expect(await page.locator('#slots li').count()).to.equal(4);
    expect(await page.locator('#stages .bar').count()).to.equal(8);
    // The text changes constantly during the run. Checks that the pipeline returns the page's text
    // at some moment.
    const words = new Set<string>();
    for (let shown = ''; !words.has(shown); shown = (await page.textContent('#waiting-for')) ?? '')
      for (let i = 0; i < 100; i++) words.add(await turn(made.waitingFor()));
    const before = await latest(page, 'train/count');
    await page.reload();
    await live(page);
    await grows(page, 'train/count');
    expect(await latest(page, 'train/count')).to.be.above(before);
    await stop();
    await page.waitForSelector('#state[data-state=idle]');
    await page.waitForFunction(
      // biome-ignore lint/suspicious/noExplicitAny: the browser's own
      (text) => (globalThis as any).document.getElementById('waiting-for').textContent === text,
      made.waitingFor(),
    );
    expect(wrong).to.deep.equal([]);
  });

  it('shows that the connection is lost, and reconnects when a server has its address again', async () => {
    const made = await counting();
    running(made);
    const first = await served({ pipeline: made, title: 'First' });
    const { page } = await opened(first.url);
    await grows(page, 'train/count');
    await first.close();
    await lost(page);
    expect(await page.textContent('#connection')).to.match(/closed; waiting for it to come back/);
    const other = await counting();
    running(other);
    const second = await serveMonitor({ pipeline: other, title: 'Second' }, { port: first.port });
    atEnd(() => second.close());
    await live(page);
    expect(await page.textContent('#title')).to.equal('Second');
    await grows(page, 'train/count');
  });

  it('is usable by keyboard, and fits widths from 360 to 1600 px in light and dark mode', async () => {
    const made = await counting();
    const stop = running(made);
    const { url } = await served({ pipeline: made });
    const backs = new Set<string>();
    for (const width of [360, 400, 768, 1024, 1600])
      for (const colorScheme of ['light', 'dark'] as const) {
        const { page, wrong } = await opened(url, {
          viewport: { width, height: 800 },
          colorScheme,
        });
        await page.waitForSelector('[data-tag="train/count"] canvas');
        const [scroll, back] = await page.evaluate(() => {
          // biome-ignore lint/suspicious/noExplicitAny: the browser's own
          const { document, getComputedStyle } = globalThis as any;
          return [
            document.documentElement.scrollWidth,
            getComputedStyle(document.body).backgroundColor,
          ];
        });
        expect(scroll, `${width}`).to.be.at.most(width);
        backs.add(back);
        expect(wrong).to.deep.equal([]);
        await page.close();
      }
    expect(backs.size).to.equal(2);
    const { page } = await opened(url);
    await grows(page, 'train/count');
    await stop();
    const focused = () =>
      // biome-ignore lint/suspicious/noExplicitAny: the browser's own
      page.evaluate(() => (globalThis as any).document.activeElement.outerHTML.slice(0, 60));
    const order: string[] = [];
    for (let i = 0; i < 5; i++) {
      await page.keyboard.press('Tab');
      order.push(await focused());
    }
    expect(order[0]).to.include('class="skip"');
    expect(order[1]).to.include('id="trace"');
    expect(order[2]).to.include('href="/metrics"');
    expect(
      order.slice(3).every((each) => each.startsWith('<canvas tabindex="0" role="img"')),
    ).to.equal(true);
    const readout = () => page.textContent('[data-tag="train/count"] figcaption span');
    await page.focus('[data-tag="train/count"] canvas');
    await page.keyboard.press('Home');
    expect(await readout()).to.match(/^[\d.k]+ at step [\d,]+, [\d.]+ s$/);
    await page.keyboard.press('Escape');
    expect(await readout()).to.match(/^[\d.kM]+$/);
  });

  it('keeps the point selected by keyboard while later points arrive', async () => {
    const made = await counting();
    running(made);
    const { url } = await served({ pipeline: made });
    const { page } = await opened(url);
    await grows(page, 'train/count');
    const readout = () => page.textContent('[data-tag="train/count"] figcaption span');
    await page.focus('[data-tag="train/count"] canvas');
    await page.keyboard.press('Home');
    const read = await readout();
    expect(read).to.match(/^[\d.k]+ at step [\d,]+, [\d.]+ s$/);
    await grows(page, 'speed/updates_per_second');
    await grows(page, 'speed/updates_per_second');
    expect(await readout()).to.equal(read);
  });

  it('shows fifty of a thousand hosts, and shows markup in their names as text', async () => {
    const { url } = await served({ pipeline: await counting(), collectors: distant(thousand()) });
    for (const width of [360, 1024, 1600])
      for (const colorScheme of ['light', 'dark'] as const) {
        const { page, wrong } = await opened(url, {
          viewport: { width, height: 800 },
          colorScheme,
        });
        await page.waitForSelector('#hosts tr');
        const scroll = await page.evaluate(
          // biome-ignore lint/suspicious/noExplicitAny: the browser's own
          () => (globalThis as any).document.documentElement.scrollWidth,
        );
        expect(scroll, `${width}`).to.be.at.most(width);
        expect(await page.locator('#hosts tr').count()).to.equal(50);
        expect(await page.textContent('#hosts-more')).to.equal('and 950 more');
        expect(await page.isVisible('#collectors-section')).to.equal(false);
        expect(await page.textContent('#hosts tr:first-child td.host')).to.equal(`${EVIL}:4700`);
        expect(await page.textContent('#hosts tr:first-child td.state')).to.equal(
          `failed: no room ${EVIL}`,
        );
        expect(await page.textContent('#hosts tr:nth-child(2) td:last-child')).to.equal('14 s');
        expect(await page.locator('#hosts img, #hosts script').count()).to.equal(0);
        expect(await page.title()).to.equal('Hotslot');
        expect(await page.textContent('#hosts-words')).to.equal('1000 hosts, 3 silent for 14 s');
        expect(await page.textContent('#transfer')).to.include('lag p99, ms18');
        expect(wrong).to.deep.equal([]);
        await page.close();
      }
  });

  it('downloads a trace', async () => {
    const made = await counting();
    running(made);
    const { url } = await served({ pipeline: made });
    const { page } = await opened(url);
    const coming = page.waitForEvent('download');
    await page.click('#trace');
    const download = await coming;
    expect(download.suggestedFilename()).to.equal('hotslot.trace.json');
  });

  it('has scripts that pass the type checker', () => {
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', 'src/net/monitor/page'], {
      cwd: root,
      encoding: 'utf8',
    });
    expect(status, stdout).to.equal(0);
  });
});
