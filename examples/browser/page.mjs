/**
 * Script of the page. It loads the model, lets the model's actions drive the physics at fifty steps
 * a second, and lets the viewer push the cart.
 */
import { push, TAU } from '/cart-pole-physics.js';
import { Drawing } from '/drawing.mjs';
import { env, InferenceSession, Tensor } from '/ort.mjs';

/** Number of steps after which an episode is over. */
const LIMIT = 500;
/** Speed that a push adds to the cart, in meters per second. */
const SHOVE = 0.4;
/** Seconds for which a push is visible. `REST` is the pause after the end of an episode. */
const SEEN = 0.25;
const REST = 1;
/** Number of returns that the page lists. */
const LISTED = 20;

env.wasm.numThreads = 1;
env.wasm.wasmPaths = { wasm: '/ort.wasm' };

const element = (id) => document.getElementById(id);
const drawing = new Drawing(element('scene'));
const state = new Float64Array(4);
const returns = [];
let session = null;
let action = null;
let steps = 0;
let over = false;
let paused = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
let shove = { way: 0, until: 0 };
/** Smoothed time that an action takes, in milliseconds. */
let taken = null;

const say = (text) => {
  element('status').textContent = text;
};

function begin() {
  for (let i = 0; i < 4; i++) state[i] = (Math.random() - 0.5) * 0.1;
  steps = 0;
  over = false;
  action = null;
  element('return').textContent = '0';
}

/** Runs the model on the current state, and returns its greedy action. */
async function act() {
  const since = performance.now();
  const obs = new Tensor('float32', Float32Array.from(state), [1, 4]);
  const { action: chosen } = await session.run({ obs });
  const now = performance.now() - since;
  taken = taken === null ? now : taken + 0.05 * (now - taken);
  return Number(chosen.data[0]);
}

async function step() {
  action = await act();
  const fell = push(state, 0, action);
  steps++;
  element('return').textContent = String(steps);
  if (!fell && steps < LIMIT) return;
  over = true;
  returns.push(steps);
  const mean = returns.reduce((sum, each) => sum + each, 0) / returns.length;
  element('episodes').textContent = String(returns.length);
  element('mean').textContent = mean.toFixed(1);
  element('time').textContent = taken === null ? '–' : `${taken.toFixed(2)} ms`;
  element('returns').textContent = returns.slice(-LISTED).join(', ');
  const why = Math.abs(state[0]) > 2.4 ? 'the cart left the track' : 'the pole fell';
  say(
    fell
      ? `Episode ${returns.length}: ${why} after ${steps} steps.`
      : `Episode ${returns.length}: the pole stood for all ${LIMIT} steps.`,
  );
}

function setPaused(wanted) {
  paused = wanted;
  element('pause').textContent = paused ? 'go on' : 'pause';
  element('pause').setAttribute('aria-pressed', String(paused));
}

function disturb(way) {
  if (over || paused || !session) return;
  state[1] += way * SHOVE;
  shove = { way, until: performance.now() + SEEN * 1000 };
}

const actions = {
  ArrowLeft: () => disturb(-1),
  ArrowRight: () => disturb(1),
  p: () => setPaused(!paused),
  n: begin,
};
for (const [id, key] of Object.entries({
  left: 'ArrowLeft',
  right: 'ArrowRight',
  pause: 'p',
  again: 'n',
}))
  element(id).addEventListener('click', actions[key]);
window.addEventListener('keydown', (event) => {
  const known = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!known || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  known();
});

/**
 * Steps the physics in real time. If the page was hidden, the loop does not catch up on the missed
 * time.
 */
async function play() {
  let before = performance.now();
  let due = 0;
  let rested = 0;
  for (;;) {
    await new Promise((resolve) => {
      setTimeout(resolve, (TAU * 1000) / 2);
    });
    const now = performance.now();
    const passed = Math.min(Math.max(now - before, 0) / 1000, 0.1);
    before = now;
    if (over) {
      rested += passed;
      if (rested > REST && !paused) begin();
    } else {
      rested = 0;
      due = paused ? 0 : due + passed;
      for (; due >= TAU && !over; due -= TAU) await step();
    }
  }
}

/** Draws a frame each time the screen refreshes. */
function show(now) {
  drawing.draw(state, action, now < shove.until ? shove.way : 0);
  requestAnimationFrame(show);
}

try {
  session = await InferenceSession.create('/policy.onnx', { executionProviders: ['wasm'] });
  if (!session.inputNames.includes('obs') || !session.outputNames.includes('action'))
    throw new Error(
      `it takes ${session.inputNames} and gives ${session.outputNames}; it must take obs and give action`,
    );
  begin();
  setPaused(paused);
  say(
    paused
      ? 'Your system asks for less motion: press “go on” to begin.'
      : 'The policy plays. Push the cart.',
  );
  requestAnimationFrame(show);
  await play();
} catch (error) {
  say(`The model cannot be run: ${error.message}`);
  for (const button of document.querySelectorAll('button')) button.disabled = true;
}
