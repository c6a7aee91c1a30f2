// Fills the page with the server's messages, and shows when the connection is lost.
import { Chart } from './chart.mjs';
import { showHosts } from './hosts.mjs';
import {
  byId,
  inside,
  showCheckpoints,
  showCollectors,
  showDevices,
  showFigures,
  showSlots,
  showStages,
  showWarnings,
  timeOf,
  whole,
  write,
  writeOrHide,
} from './panels.mjs';

// ---- curves -------------------------------------------------------------------------------------

/** Tags of the curves that users look at first, in their order on the page. */
const order = [
  'episodes/return',
  'evaluation/return',
  'train/loss',
  'speed/updates_per_second',
  'speed/steps_per_second',
];
/** @type {Record<string, string>} */
const names = {
  'episodes/return': 'return, mean of the last episodes',
  'evaluation/return': 'return of greedy episodes',
  'speed/updates_per_second': 'updates a second',
  'speed/steps_per_second': 'environment steps a second',
};
/** @param {string} tag */
const rank = (tag) => (order.includes(tag) ? order.indexOf(tag) : order.length);
/** @type {Map<string, Chart>} */
const charts = new Map();

/** @param {any} curves */
function showCurves(curves) {
  for (const [tag, { from, points }] of Object.entries(curves)) {
    let chart = charts.get(tag);
    if (!chart) {
      chart = new Chart(names[tag] ?? tag.replace(/^train\//, ''));
      chart.element.dataset.tag = tag;
      charts.set(tag, chart);
      const after = [...charts.keys()].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
      const next = after
        .slice(after.indexOf(tag) + 1)
        .find((each) => charts.get(each)?.element.isConnected);
      byId('curves').insertBefore(chart.element, (next && charts.get(next)?.element) || null);
    }
    chart.put(from, points);
  }
  byId('no-curves').hidden = charts.size > 0;
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const chart of charts.values()) chart.draw();
});

let began = 0;

/** @param {any} facts */
function begin({ title, device, placement, ringDepth, rows, began: run }) {
  // Another run that uses the same address has other curves.
  if (began !== run) {
    for (const { element } of charts.values()) element.remove();
    charts.clear();
  }
  began = run;
  write(byId('title'), title);
  document.title = title === 'Hotslot' ? title : `${title} · Hotslot`;
  write(
    byId('facts'),
    `${device} · ${placement} · ${ringDepth} slots of ${whole(rows)} rows · since ${timeOf(run)}`,
  );
}

/** @param {any} now */
function show(now) {
  if (now.facts) begin(now.facts);
  const state = now.state === 'idle' && now.updatesPerSecond > 0 ? 'manual ticks' : now.state;
  write(byId('state'), state);
  byId('state').dataset.state = now.state;
  const over = now.state === 'closed' || now.state === 'failed';
  inside(document.body, '.big').hidden = over;
  write(byId('waiting-for'), now.waitingFor);
  write(
    byId('who-waits'),
    over
      ? `The pipeline is over: it was ${now.state === 'failed' ? 'ended by a failure' : 'closed'}.`
      : now.whoWaits,
  );
  writeOrHide('failure', now.failure);
  showFigures(now);
  showCurves(now.curves);
  showSlots(now.slots);
  showStages(now.stages);
  showDevices(now.devices);
  showCollectors(now.collectors);
  showHosts(now.remote, now.collectors);
  showCheckpoints(now.checkpoint);
  showWarnings(now.said);
  const trace = /** @type {HTMLButtonElement} */ (byId('trace'));
  trace.disabled = over || tracing;
}

// ---- the connection -----------------------------------------------------------------------------

/**
 * Milliseconds without a message after which the connection counts as lost, whatever the network
 * reports.
 */
const SILENCE_MS = 3000;
let heard = performance.now();
/** @type {EventSource | null} */
let source = null;

/** @param {'live' | 'lost'} how @param {string} text */
function connection(how, text) {
  document.body.dataset.connection = how;
  write(byId('connection'), text);
}

function connect() {
  source?.close();
  source = new EventSource('/events');
  heard = performance.now();
  source.onmessage = ({ data }) => {
    heard = performance.now();
    show(JSON.parse(data));
    connection('live', 'Live');
  };
  source.addEventListener('bye', () =>
    connection('lost', 'The monitor was closed; waiting for it to come back'),
  );
  // A refusal closes the source permanently, for example if the server has too many clients. The
  // interval below then connects again.
  source.onerror = () => {
    if (document.body.dataset.connection !== 'lost')
      connection('lost', 'Connection lost; trying again');
  };
}
setInterval(() => {
  const closed = source?.readyState === EventSource.CLOSED;
  if (!closed && performance.now() - heard < SILENCE_MS) return;
  if (document.body.dataset.connection !== 'lost')
    connection('lost', 'Connection lost; trying again');
  connect();
}, 1000);
connect();

// ---- the trace ----------------------------------------------------------------------------------

let tracing = false;
byId('trace').addEventListener('click', async () => {
  const button = /** @type {HTMLButtonElement} */ (byId('trace'));
  tracing = button.disabled = true;
  write(button, 'Tracing …');
  try {
    const response = await fetch('/trace?seconds=5');
    const text = await response.text();
    if (!response.ok) throw new Error(text.trim());
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
    link.download = 'hotslot.trace.json';
    link.click();
    URL.revokeObjectURL(link.href);
    write(button, 'Trace of 5 s');
  } catch (error) {
    write(button, `No trace: ${/** @type {Error} */ (error).message}`);
  }
  tracing = button.disabled = false;
});
