/**
 * The option `--monitor [PORT]` of the examples. It serves the live page at a fixed port, so that
 * bookmarks keep working.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { type Monitor, type MonitorParts, serveMonitor } from '../src/entries/monitor.ts';
import { type Option, readWhole, UsageError } from './command-line.ts';

/** Port of the page if `--monitor` is given without a port. */
const PORT = 7660;
/**
 * Time without a connected browser after which the page ends. A browser disconnects for a moment
 * while it reloads the page.
 */
const GONE_MS = 3000;
const POLL_MS = 100;

/**
 * Option `--monitor [PORT]`. Its value is null if the port is omitted, and undefined if the option
 * is omitted.
 */
export const monitor: Option<number | null | undefined> = {
  placeholder: '[PORT]',
  help: `serve a live page on this machine (default port ${PORT})`,
  omitted: undefined,
  bare: null,
  read: (name, text) => readWhole(name, text, 0, 65_535),
};

/**
 * Opens the page and returns it with a line that shows its address. Throws UsageError if the given
 * port is in use. If no port is given and the default port is in use, the page takes another port.
 */
export async function openMonitor(
  parts: MonitorParts,
  port: number | null,
): Promise<{ monitor: Monitor; text: string }> {
  try {
    const monitor = await serveMonitor(parts, { port: port ?? PORT });
    return { monitor, text: `live page: ${monitor.url}` };
  } catch (error) {
    const { code, message, cause } = error as Error & { code?: string; cause?: { code?: string } };
    if (code !== 'ERR_HOTSLOT_UNAVAILABLE') throw error;
    if (port !== null) throw new UsageError(message);
    if (cause?.code !== 'EADDRINUSE') throw error;
    const monitor = await serveMonitor(parts);
    return { monitor, text: `live page: ${monitor.url} (port ${PORT} is taken)` };
  }
}

/**
 * Keeps the page open after the training. On a terminal it waits for the signal. Otherwise it waits
 * until no browser is connected.
 */
export async function whileConnected(monitor: Monitor, signal: AbortSignal): Promise<void> {
  const isTerminal = process.stdout.isTTY === true;
  if (signal.aborted || (!isTerminal && monitor.clients === 0)) return;
  console.error(
    `the live page stays${isTerminal ? '' : ' while a browser is connected'}; Ctrl-C ends it`,
  );
  for (let gone = 0; !signal.aborted && (isTerminal || gone < GONE_MS); ) {
    await wait(POLL_MS, undefined, { signal }).catch(() => {});
    gone = monitor.clients > 0 ? 0 : gone + POLL_MS;
  }
}
