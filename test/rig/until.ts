/** Waiting in a test: asked again and again, never slept, and bounded. */
import { setImmediate as turn } from 'node:timers/promises';

/** Asks until `met`, giving the event loop a turn in between; never helps a device. Fails after `ms`. */
export async function until(what: string, met: () => boolean, ms = 5000): Promise<void> {
  for (const end = performance.now() + ms; !met(); await turn())
    if (performance.now() > end) throw new Error(`waited ${ms} ms in vain until ${what}`);
}
