/**
 * Waiting in a test: asked again and again, never slept. The bound is a net for what never comes.
 * It lies below the time-out in .mocharc.json, so that a test fails by this error, which names what
 * was missing.
 */
import { setImmediate as turn } from 'node:timers/promises';

/**
 * Asks until `met`, giving the event loop a turn in between; never helps a device. Throws after
 * `ms`.
 */
export async function until(what: string, met: () => boolean, ms = 60_000): Promise<void> {
  for (const end = performance.now() + ms; !met(); await turn())
    if (performance.now() > end) throw new Error(`waited ${ms} ms in vain until ${what}`);
}
