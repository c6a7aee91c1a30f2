/** `hotslot collect`: runs collectors here for a learner on another machine, until Ctrl-C. */
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { rangeError } from '../base/errors.ts';
import { checkAddress } from '../net/remote/address.ts';
import { CollectorHost } from '../net/remote/collector-host.ts';
import type { CollectorHostStatistics } from '../net/remote/host-options.ts';
import { showProgress } from '../run/train/live-display.ts';

interface Arguments {
  url: string;
  run: string;
  /** path of the collector's module, relative to the current folder */
  entry: string;
  workers?: number;
  lanes?: number;
  /** maximum bytes of rows that may wait to be sent */
  outbox?: number;
  /** name of this host, '' for the machine's name and the process id */
  name: string;
  insecure: boolean;
  /** path of a file of CA certificates, '' for the system's certificates */
  ca: string;
  json: boolean;
  print(text: string): void;
}

/**
 * Interval in ms at which the progress is checked, and minimum time that a rate covers. A reason to
 * wait is printed if two checks in a row find it.
 */
const LOOK_MS = 1000;
/** Number of checks between two progress lines, on an output that does not redraw lines. */
const LINE_LOOKS = 10;
const INTERRUPTED = 130;

/**
 * Collects until a signal. Resolves with exit code 0 after SIGTERM, and with 130 after Ctrl-C.
 * Rejects with one sentence if the learner or the server refuses this host. Rejects with a
 * collector's error if that collector fails.
 */
export async function collect(requested: Arguments): Promise<number> {
  const { url, run, workers, lanes, insecure, json, print } = requested;
  const entry = moduleOf(requested.entry);
  const address = { url, insecure, ca: requested.ca || undefined };
  const { shown } = checkAddress(address);
  const stop = new AbortController();
  let code = 0;
  const ending = (signal: NodeJS.Signals) => {
    if (signal === 'SIGINT') code = INTERRUPTED;
    stop.abort();
  };
  // Handles only the first signal. The second one ends the process at once.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, ending);
  const say = (event: string, words: string, facts: object) =>
    print(json ? `${JSON.stringify({ event, ...facts })}\n` : `${words}\n`);
  let opened = false;
  const onWait = (waitingFor: string) => {
    if (!opened) say('waiting', `waits: ${waitingFor}`, { waitingFor });
  };
  try {
    const given = {
      ...address,
      run,
      entry,
      workers,
      lanes,
      outboxBytes: requested.outbox,
      name: requested.name || undefined,
    };
    const host = await CollectorHost.open({ ...given, onWait, signal: stop.signal });
    opened = true;
    await using _closed = host;
    const many = workers === undefined || workers === 1 ? '1 worker' : `${workers} workers`;
    say('joined', `run ${run} at ${shown}: ${many} of ${requested.entry}`, {
      run,
      server: shown,
      workers: workers ?? 1,
    });
    await until(host, stop.signal, say, json);
    const last = host.statistics();
    say('ended', lastText(last), last);
    return code;
  } catch (error) {
    if (stop.signal.aborted && error === stop.signal.reason) return code;
    throw error;
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.removeListener(signal, ending);
  }
}

function moduleOf(entry: string): URL {
  const path = resolve(entry);
  if (statSync(path, { throwIfNoEntry: false })?.isFile() === true) return pathToFileURL(path);
  throw rangeError(`--entry must be a collector's module; this file does not exist: ${path}`);
}

/**
 * Prints the progress until `signal` aborts or the host ends. After an abort, closes the host,
 * which sends the remaining rows.
 */
async function until(
  host: CollectorHost,
  signal: AbortSignal,
  say: (event: string, words: string, facts: object) => void,
  json: boolean,
): Promise<void> {
  const progress = progressOf(host);
  const closed = new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(host.close()));
    if (signal.aborted) resolve(host.close());
  });
  const work = Promise.race([host.done, closed.then(() => host.done)]);
  const { columns, isTTY } = process.stdout;
  if (!json && isTTY && columns > 0) return showProgress(work, { live: progress.live });
  const timer = setInterval(() => {
    if (progress.isDue()) say('progress', progress.line(), progress.facts());
  }, LOOK_MS);
  try {
    await work;
  } finally {
    clearInterval(timer);
  }
}

function progressOf(host: CollectorHost) {
  const begin = performance.now();
  let now = host.statistics();
  let at = begin;
  let rate = 0;
  let checks = 0;
  /** what the host waited for at the last check */
  let before: string | null = null;
  /** what the host waited for at the last printed line */
  let printed: string | null = null;
  const facts = () => {
    const time = performance.now();
    if (time - at >= LOOK_MS - 50) {
      const next = host.statistics();
      rate = (1000 * (next.acknowledged - now.acknowledged)) / (time - at);
      now = next;
      at = time;
    }
    return {
      seconds: Math.round((at - begin) / 100) / 10,
      ...now,
      rowsPerSecond: Math.round(rate),
    };
  };
  const [indent, between] = [' '.repeat(10), '  '];
  return {
    facts,
    line: () => lines(facts()).join(between),
    live: () => lines(facts()).map((line, at) => (at === 0 ? line : indent + line)),
    /**
     * Returns whether to print a line now. This is true every ten seconds, and if two checks in a
     * row find a reason to wait that is not printed yet.
     */
    isDue(): boolean {
      const { waitingFor } = facts();
      const changed = waitingFor === before && waitingFor !== printed;
      before = waitingFor;
      if (!changed && ++checks < LINE_LOOKS) return false;
      checks = 0;
      printed = waitingFor;
      return true;
    },
  };
}

const whole = (value: number) => Math.round(value).toLocaleString('en-US');

/** Formats the progress as three lines for a terminal. */
function lines(
  facts: CollectorHostStatistics & { readonly seconds: number; readonly rowsPerSecond: number },
) {
  const { seconds, steps, sent, acknowledged, rowsPerSecond, version, meanReturn, waitingFor } =
    facts;
  const worth = Number.isNaN(meanReturn) ? '–' : meanReturn.toFixed(1);
  return [
    `${seconds.toFixed(1).padStart(6)} s  ${whole(steps)} steps  return ${worth}  version ${version}`,
    `${whole(sent)} rows sent, ${whole(acknowledged)} acknowledged, ${whole(rowsPerSecond)}/s`,
    waitingFor === null ? 'collects' : `waits: ${waitingFor}`,
  ];
}

function lastText({ steps, sent, acknowledged, waiting }: CollectorHostStatistics): string {
  const left = sent - acknowledged + waiting;
  const how =
    left === 0
      ? 'the learner has all of their rows'
      : `${whole(left)} rows did not reach the learner`;
  return `ended after ${whole(steps)} steps: ${how}`;
}
