/** Calls of the whole public API. Most of them have right arguments with one change. */
import type { Random } from '../../src/index.ts';
import { changed, oddities, oddOf } from './changes.ts';
import { aroundRows } from './right-around.ts';
import { deviceRows } from './right-device.ts';
import { learnerTable } from './right-learner.ts';
import { replayRows } from './right-replay.ts';
import { State } from './state.ts';
import type { Kind, Place } from './target.ts';
import { type Target, targetsOf } from './targets.ts';
import type { Call, Gen, Value } from './values.ts';
import { doors, type Things, World } from './world.ts';

export const right: Readonly<Record<string, readonly Gen[]>> = {
  ...deviceRows,
  ...replayRows,
  ...aroundRows,
  ...learnerTable,
};

/**
 * Functions that do not end by themselves, or change the process for good, are called in these
 * forms.
 */
const forms: Readonly<Record<string, string>> = {
  'ranks.openMpi($*)': "ranks.openMpi({ library: 'nowhere.so', more: $ })",
};

/** The error that the caller's own code throws during a call, also used as a signal's reason. */
export const told = Object.assign(new Error('told to'), { code: 'TOLD' });

/** Errors that come from the caller's own code, or that are not Hotslot's to check. */
const others: readonly (readonly [what: RegExp, text: RegExp])[] = [
  [/./, /on a proxy that has been revoked/],
  // Modules and iterators belong to the caller.
  [
    /^(collect\.train|hotslot\.CollectorPool|remote\.CollectorHost)/,
    /Cannot find module '\/nowhere/,
  ],
  [/./, /^Class constructors? .*cannot be invoked without 'new'/],
  [/^w\.wrapper\.run/, /prototype\.\w+ on a detached ArrayBuffer|is not iterable/],
];

/** Changes that a refused call may make. */
const mayChange: readonly (readonly [what: RegExp, change: RegExp])[] = [
  // endCapture() ends a broken capture too, and then throws.
  [/\.endCapture\(/, /\.capturing was true/],
  // Each claim of a lane takes a number, even if the claim is refused.
  [/\.(writer|load)\(/, /^the memory of w\.sharedSteps/],
  // A requested tick is packed, even if the main thread is not allowed to wait for it.
  [/Sync\(/, /^w\.(pipeline|stepped) was/],
  // The process keeps some handles of a device that was opened once.
  [/./, /^device: /],
  // A sampler belongs to the first view that it is used with, even if nothing is drawable yet or
  // the device is refused.
  [/\.trajectories\.sample\(|ReplayPipeline\.open\(/, /^w\.sampler was/],
  // A wrapper creates its event in its first run.
  [/\.wrapper\.run\(/, /^event: /],
];

export async function doorOn(device: string): Promise<Kind> {
  const first = await World.open(device);
  const names = Object.keys(first.things);
  const targets = targetsOf(first.things);
  await first.close();
  const odd = oddOf(names);
  const draw = drawing(targets, odd);
  return { draw, open: () => open(device), inOnePlace: 250, patience: 250 };
}

function drawing(targets: readonly Target[], odd: Gen): (random: Random) => Call {
  const total = targets.reduce((sum, { weight }) => sum + weight, 0);
  return (random) => {
    let at = random.next() * total;
    let target = targets[0] as Target;
    for (target of targets) {
      at -= target.weight;
      if (at < 0) break;
    }
    const form = forms[target.form] ?? target.form;
    return { form, values: target.takes ? argumentsOf(right[target.key], odd, random) : [] };
  };
}

function argumentsOf(row: readonly Gen[] | undefined, odd: Gen, random: Random): readonly Value[] {
  if (row === undefined || random.below(12) === 0)
    return Array.from({ length: random.below(4) }, () => odd(random));
  const good = row.map((gen) => gen(random));
  // A quarter of the calls have right arguments. A refusal then comes from the state of the
  // objects.
  const values =
    random.below(4) === 0
      ? good
      : (({ list }) => list)(changed({ list: good }, odd, random) as { list: readonly Value[] });
  if (values === undefined) return [odd(random)];
  let length = values.length;
  while (length > 0 && textIsUndefined(values[length - 1] as Value)) length--;
  return values.slice(0, length);
}
const textIsUndefined = (value: Value) => 'code' in value && value.code === 'undefined';

async function open(device: string): Promise<Place> {
  const world = await World.open(device);
  const things: Things = { ...world.things };
  const state = new State(things);
  // Includes the parts of objects, because a getter with an old name may return one.
  const parts = Object.values(things).flatMap((thing) =>
    typeof thing === 'object' && thing !== null ? Object.values(thing) : [],
  );
  const own = new Set<unknown>([...Object.values(things), ...parts]);
  for (const name of ['device', 'again', 'host'])
    own.add((things[name] as { defaultStream: unknown }).defaultStream);
  const scope = {
    ...doors,
    w: things,
    told,
    get odd() {
      return {
        ...oddities(told),
        soon: () => AbortSignal.any([AbortSignal.timeout(20), AbortSignal.abort(told)]),
      };
    },
  };
  return {
    scope,
    keep: () => state.keep(),
    differs: ({ form }) => {
      const differs = state.differs();
      if (
        differs === null ||
        !mayChange.some(([what, change]) => what.test(form) && change.test(differs))
      )
        return differs;
      state.keep();
      return null;
    },
    others: ({ form }, text) => others.some(([what, each]) => what.test(form) && each.test(text)),
    tidy: (answer) => tidy(answer, own, 0),
    close: () => world.close(),
  };
}

/** Closes what a call created. */
async function tidy(answer: unknown, own: ReadonlySet<unknown>, depth: number): Promise<void> {
  if (typeof answer !== 'object' || answer === null || own.has(answer) || depth > 1) return;
  if (Array.isArray(answer))
    for (const each of answer.slice(0, 20)) await tidy(each, own, depth + 1);
  try {
    const { close } = answer as { close?: unknown };
    if (typeof close !== 'function') return;
    await close.call(answer);
  } catch {
    // The object belongs to somebody else, who closes it.
  }
}
