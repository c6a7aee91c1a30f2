// The panel of collectors on other machines. Hosts may send any text about themselves, so it is
// written as text, never as HTML.
import { clock, short } from './chart.mjs';
import { byId, each, inside, made, whole, write, writeOrHide } from './panels.mjs';

/**
 * Formats bytes as megabytes of 10^6 bytes.
 * @param {number} bytes
 */
const megabytes = (bytes) => short(bytes / 1e6);
/** @param {number | null} ms */
const milliseconds = (ms) => (ms === null ? '–' : short(ms));

/** @param {any} remote @returns {[name: string, value: string][]} */
const figures = (remote) => [
  ['rows a second', short(remote.rowsPerSecond)],
  ['MB a second', megabytes(remote.bytesPerSecond)],
  ['lag p50, ms', milliseconds(remote.lag.p50)],
  ['lag p99, ms', milliseconds(remote.lag.p99)],
  ['held back', `${Math.round(100 * remote.gated)} %`],
  ['duplicates', whole(remote.duplicates)],
  ['lost', whole(remote.lost)],
  ['stale', whole(remote.stale)],
  ['refused', whole(remote.refused)],
];

const row = () =>
  made(
    '<table><tr><td class="host"></td><td class="state"></td><td></td><td></td><td></td><td></td><td></td><td></td></tr></table>',
  ).querySelector('tr') ?? made('<tr></tr>');

/** @param {any} remote @param {any} collectors */
export function showHosts(remote, collectors) {
  byId('hosts-section').hidden = remote === null;
  if (remote === null) return;
  writeOrHide('hosts-words', remote.waitingFor?.replace(/^rows: /, '') ?? null);
  each(
    byId('transfer'),
    figures(remote),
    () => made('<div><dt></dt><dd></dd></div>'),
    (child, [name, value]) => {
      write(inside(child, 'dt'), name);
      write(inside(child, 'dd'), value);
    },
  );
  each(byId('hosts'), remote.hosts, row, (child, host) => {
    const { state, why, silentMs } = host;
    child.setAttribute('data-state', state);
    const silent = state === 'ended' ? '–' : clock(Math.floor(silentMs / 1000));
    const texts = [
      `${host.host}:${host.pid}`,
      why === '' ? state : `${state}: ${why}`,
      whole(host.workers),
      whole(host.steps),
      whole(host.rows),
      host.version > 0 ? `v${host.version}` : '–',
      whole(host.waiting),
      silent,
    ];
    for (const [at, text] of texts.entries())
      write(/** @type {Element} */ (child.children[at]), text);
    // A long text is cut off in its cell, so its tooltip shows the whole text.
    for (const at of [0, 1]) {
      const cell = /** @type {HTMLElement} */ (child.children[at]);
      if (cell.title !== texts[at]) cell.title = texts[at] ?? '';
    }
  });
  writeOrHide('hosts-more', remote.more > 0 ? `and ${whole(remote.more)} more` : null);
  writeOrHide('hosts-failure', collectors?.failure ?? null);
}
