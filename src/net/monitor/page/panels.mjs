// Shows the parts of the page other than curves. Each function gets its part of the server's
// message.
import { clock, short } from './chart.mjs';

/** @param {string} id */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/**
 * Writes a text only if it has changed, because the browser lays out each written text again, and
 * screen readers read it out.
 * @param {Element} element @param {string} text
 */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
/** @param {string} id @param {string | null} text */
export function writeOrHide(id, text) {
  byId(id).hidden = text === null || text === '';
  write(byId(id), text ?? '');
}
/**
 * Fills one child of `parent` for each item. Adds missing children with `make`, and removes surplus
 * ones.
 * @template T
 * @param {Element} parent @param {readonly T[]} items @param {() => Element} make
 * @param {(child: Element, item: T, i: number) => void} fill
 */
export function each(parent, items, make, fill) {
  while (parent.children.length > items.length) parent.lastElementChild?.remove();
  while (parent.children.length < items.length) parent.append(make());
  for (const [i, item] of items.entries())
    fill(/** @type {Element} */ (parent.children[i]), item, i);
}
/** @param {string} html text of this file, never text that was received */
export function made(html) {
  const template = document.createElement('template');
  template.innerHTML = html;
  return /** @type {Element} */ (template.content.firstElementChild);
}
/** @param {Element} parent @param {string} selector */
export const inside = (parent, selector) =>
  /** @type {HTMLElement} */ (parent.querySelector(selector));

/** @param {number} n */
export const whole = (n) => Math.round(n).toLocaleString('en');
/** @param {number} bytes */
function size(bytes) {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${Number((bytes / 1024 ** power).toPrecision(3))} ${units[power]}`;
}
/** @param {number} seconds */
function duration(seconds) {
  if (seconds >= 1) return `${seconds.toPrecision(3)} s`;
  return seconds >= 1e-3
    ? `${(seconds * 1e3).toPrecision(3)} ms`
    : `${(seconds * 1e6).toFixed(seconds < 1e-5 ? 1 : 0)} µs`;
}
/** @param {number} at milliseconds since 1970 */
export const timeOf = (at) => new Date(at).toLocaleTimeString();

const states = ['Free', 'Requested', 'Packed', 'Submitted', 'Ready', 'Replaying'];

/** @param {any} now */
export function showFigures({ collectors, updatesPerSecond, finished, buffer, version }) {
  /** @type {[string, string, string][]} */
  const figures = [];
  if (collectors)
    figures.push([
      'Return',
      short(collectors.meanReturn),
      collectors.recent ? `of ${collectors.recent} episodes` : '',
    ]);
  figures.push(['Updates a second', updatesPerSecond === null ? '–' : short(updatesPerSecond), '']);
  if (collectors) figures.push(['Steps a second', short(collectors.stepsPerSecond), '']);
  figures.push(['Ticks', whole(finished), '']);
  if (collectors) figures.push(['Environment steps', whole(collectors.steps), '']);
  if (buffer)
    figures.push([
      'Buffer',
      `${Math.floor((100 * buffer.size) / buffer.capacity)} %`,
      `of ${short(buffer.capacity)}`,
    ]);
  if (version > 0) figures.push(['Weights version', whole(version), '']);
  each(
    byId('figures'),
    figures,
    () => made('<div><dt></dt><dd><span></span> <small></small></dd></div>'),
    (child, [name, value, more]) => {
      write(inside(child, 'dt'), name);
      write(inside(child, 'span'), value);
      write(inside(child, 'small'), more);
    },
  );
}

/** @param {any[]} slots */
export function showSlots(slots) {
  const life =
    '<span class="life" aria-hidden="true"><i></i><i></i><i></i><i></i><i></i><i></i></span>';
  each(
    byId('slots'),
    slots,
    () =>
      made(
        `<li><span class="slot"></span>${life}<span class="state"></span><span class="tick"></span></li>`,
      ),
    (child, { state, tick, sequence }, i) => {
      write(inside(child, '.slot'), `slot ${i}`);
      write(inside(child, '.state'), state.toLowerCase());
      // Before its first request a slot has no tick.
      const asked = state !== 'Free' || sequence >= slots.length;
      write(inside(child, '.tick'), asked ? `tick ${tick}` : '–');
      for (const [at, place] of [...inside(child, '.life').children].entries())
        if (states[at] === state) place.setAttribute('data-here', state);
        else place.removeAttribute('data-here');
    },
  );
}

/**
 * @param {string} id @param {{ name: string, part: number, more: number, value: string, second:
 *   string }[]} bars
 */
function showBars(id, bars) {
  const html =
    '<div class="bar"><span class="name"></span><span class="track" aria-hidden="true"><i class="more"></i><i class="part"></i></span><span class="value"><span></span> <small></small></span></div>';
  each(
    byId(id),
    bars,
    () => made(html),
    (child, { name, part, more, value, second }) => {
      child.setAttribute('data-stage', name);
      write(inside(child, '.name'), name);
      inside(child, '.part').style.width = `${(100 * part).toFixed(1)}%`;
      inside(child, '.more').style.width = `${(100 * more).toFixed(1)}%`;
      write(inside(child, '.value span'), value);
      write(inside(child, '.value small'), second);
    },
  );
}

/** @param {any} stages */
export function showStages(stages) {
  byId('no-stages').hidden = stages !== null;
  const all = Object.entries(stages ?? {});
  const most = Math.max(...all.map(([, { p90 }]) => p90));
  showBars(
    'stages',
    all.map(([name, { p50, p90 }]) => ({
      name,
      part: p50 / most || 0,
      more: p90 / most || 0,
      value: duration(p50),
      second: `≤ ${duration(p90)}`,
    })),
  );
}

/** @param {any[]} devices */
export function showDevices(devices) {
  showBars(
    'devices',
    devices.map(({ name, memory }) => {
      if (!memory) return { name, part: 0, more: 0, value: 'closed', second: '' };
      const used = memory.total - memory.free;
      return {
        name,
        part: used / memory.total,
        more: 0,
        value: size(used),
        second: `of ${size(memory.total)}`,
      };
    }),
  );
}

/** @param {any} collectors */
export function showCollectors(collectors) {
  // Collectors on other machines have a separate panel (hosts.mjs).
  const none = collectors === null || collectors.workers.length === 0;
  byId('collectors-section').hidden = none;
  if (none) return;
  each(
    byId('collectors'),
    collectors.workers,
    () =>
      made('<table><tr><td></td><td></td><td></td><td></td><td></td></tr></table>').querySelector(
        'tr',
      ) ?? made('<tr></tr>'),
    (row, { steps, episodes, waits, version, busyMs }, i) => {
      // A long collect() may mean that an environment is stuck, so the row shows its time.
      const name = busyMs > 2000 ? `${i} (in collect() for ${clock(busyMs / 1000)})` : `${i}`;
      const texts = [
        name,
        whole(steps),
        whole(episodes),
        whole(waits),
        version > 0 ? `v${version}` : '–',
      ];
      for (const [at, text] of texts.entries())
        write(/** @type {Element} */ (row.children[at]), text);
    },
  );
  writeOrHide('collectors-failure', collectors.failure);
}

const listed = () => made('<li><time></time><span></span></li>');

/** @param {any} checkpoint */
export function showCheckpoints(checkpoint) {
  byId('checkpoints-section').hidden = checkpoint === null;
  if (checkpoint === null) return;
  write(byId('checkpoints-folder'), checkpoint.folder);
  byId('no-checkpoints').hidden = checkpoint.saved.length > 0;
  each(
    byId('checkpoints'),
    checkpoint.saved,
    listed,
    (child, { save, tick, bytes, seconds, at }) => {
      write(inside(child, 'time'), timeOf(at));
      write(
        inside(child, 'span'),
        `number ${save}, tick ${whole(tick)}: ${size(bytes)} in ${duration(seconds)}`,
      );
    },
  );
  writeOrHide(
    'checkpoints-error',
    checkpoint.error === null ? null : `The latest failed: ${checkpoint.error}`,
  );
}

/** @param {any[]} said */
export function showWarnings(said) {
  byId('no-warnings').hidden = said.length > 0;
  each(byId('warnings'), [...said].reverse(), listed, (child, { at, text }) => {
    write(inside(child, 'time'), timeOf(at));
    write(inside(child, 'span'), text);
  });
}
