/** `--monitor [PORT]` of the examples: the live page, at a port that a bookmark finds again. */
import { setTimeout as wait } from 'node:timers/promises';
import { type Monitor, type MonitorParts, serveMonitor } from '../src/entries/monitor.ts';
import { UsageError, whole } from './command-line.ts';

/** Where it is when no port is named. */
const PORT = 7660;
/** A page that is loaded again is gone for a moment. */
const GONE_MS = 3000;
const LOOK_MS = 100;

/** As parseOptions() takes it; without a port it is the empty text. */
export const monitorOption = { type: 'string', bare: '' } as const;

/** The port that was asked for, null where any will do; undefined: no page is wanted. */
export function monitorPort(text: string | undefined): number | null | undefined {
  if (text === undefined) return undefined;
  return text === '' ? null : whole('monitor', text, 0, 65_535);
}

/**
 * Opens the page and says where. A port that was named and is taken is wrong usage; else another
 * one does.
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
 * A training may be over before its page was read: it stays while somebody looks, on a terminal
 * until the signal.
 */
export async function whileLooked(monitor: Monitor, signal: AbortSignal): Promise<void> {
  const isTerminal = process.stdout.isTTY === true;
  if (signal.aborted || (!isTerminal && monitor.clients === 0)) return;
  console.error(`the live page stays${isTerminal ? '' : ' while somebody looks'}; Ctrl-C ends it`);
  for (let gone = 0; !signal.aborted && (isTerminal || gone < GONE_MS); ) {
    await wait(LOOK_MS, undefined, { signal }).catch(() => {});
    gone = monitor.clients > 0 ? 0 : gone + LOOK_MS;
  }
}
