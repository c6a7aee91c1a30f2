/**
 * Waiting in a test: the condition is checked again and again, without sleeping. The time limit is
 * below that in .mocharc.json, so that a test fails with this error, which names what it waited
 * for.
 */
import { setImmediate as turn } from 'node:timers/promises';

/**
 * Checks `met` until it returns true, with a turn of the event loop after each check. It never
 * helps a device. Throws after `ms`.
 */
export async function until(what: string, met: () => boolean, ms = 60_000): Promise<void> {
  for (const end = performance.now() + ms; !met(); await turn())
    if (performance.now() > end) throw new Error(`waited ${ms} ms in vain until ${what}`);
}
