/** Starts Debian's Chromium under the control of playwright-core. */
import { existsSync } from 'node:fs';
import type { Browser } from 'playwright-core';

const executablePath = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find((path) =>
  existsSync(path),
);

/**
 * Starts Chromium. If it is not installed, prints that and skips the test, or all tests of the
 * suite.
 */
export async function launch(context: Mocha.Context): Promise<Browser> {
  if (!executablePath) {
    console.log(
      '      skipped: no Chromium here; on Debian: apt-get install chromium-headless-shell',
    );
    context.skip();
  }
  const { chromium } = await import('playwright-core');
  return chromium.launch({ executablePath, args: ['--no-sandbox'] });
}
