/** `--monitor [PORT]` of the examples: the live page, at a fixed port for bookmarks. */
import { setTimeout as wait } from 'node:timers/promises';
import { type Monitor, type MonitorParts, serveMonitor } from '../src/entries/monitor.ts';
import { type Option, readWhole, UsageError } from './command-line.ts';

/** The port if none is given. */
const PORT = 7660;
/** A page that is reloaded disconnects for a moment. */
const GONE_MS = 3000;
const POLL_MS = 100;

/** `--monitor [PORT]`: null for any port, undefined for no page. */
export const monitor: Option<number | null | undefined> = {
  placeholder: '[PORT]',
  help: `serve a live page on this machine (default port ${PORT})`,
  omitted: undefined,
  bare: null,
  read: (name, text) => readWhole(name, text, 0, 65_535),
};

/**
 * Opens the page and returns its address. A given port that is in use throws UsageError. Without a
 * given port another one is used.
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
 * Keeps the page after the training: while a browser is connected, or on a terminal until the
 * signal.
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
