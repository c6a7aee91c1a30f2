/** The facts of a run that the learner publishes for its hosts, as fields of one hash. */
import { unavailableError } from '../../base/errors.ts';
import { PROTOCOL } from './keys.ts';
import { describeLayout, layoutSum } from './layout.ts';
import type { Fields, Link } from './link.ts';

export interface RunInfo {
  readonly epoch: number;
  /** describeLayout() of the learner's buffer */
  readonly layout: string;
  /** number of float32 weights of a version, or 0 if collectors act without weights */
  readonly weights: number;
  /** options that every collector gets */
  readonly options: unknown;
  readonly seed: number;
  readonly shards: number;
}

export const infoFields = (info: RunInfo): Fields => ({
  protocol: `${PROTOCOL}`,
  epoch: `${info.epoch}`,
  layout: info.layout,
  sum: `${layoutSum(info.layout)}`,
  weights: `${info.weights}`,
  options: JSON.stringify(info.options ?? null),
  seed: `${info.seed}`,
  shards: `${info.shards}`,
});

/**
 * Returns why a host that was opened for `mine` does not fit the run `theirs`, or null if it fits.
 */
export function differenceOf(mine: RunInfo, theirs: RunInfo): string | null {
  const of = (what: string, here: string | number, there: string | number) =>
    here === there ? null : `it has ${what} ${there}, and this host was opened for ${here}`;
  const options = (info: RunInfo) => JSON.stringify(info.options ?? null);
  const cut = (text: string) => (text.length > 200 ? `${text.slice(0, 199)}…` : text);
  return (
    (mine.layout === theirs.layout
      ? null
      : of('rows of', describeLayout(mine.layout), describeLayout(theirs.layout))) ??
    of('weights of length', mine.weights, theirs.weights) ??
    of('shards:', mine.shards, theirs.shards) ??
    (options(mine) === options(theirs)
      ? null
      : of('options', cut(options(mine)), cut(options(theirs))))
  );
}

const NAMES = [
  'protocol',
  'epoch',
  'layout',
  'sum',
  'weights',
  'options',
  'seed',
  'shards',
] as const;
const MAX_CHARACTERS = 2 ** 20;

/**
 * Returns the epoch of the learner that published the run last. Returns 0 if the epoch is missing
 * or invalid, which does not prevent a learner from taking the run.
 */
export async function epochOf(link: Link, key: string): Promise<number> {
  const [text] = await link.load(key, ['epoch']);
  const epoch = Number(text ?? 0);
  return Number.isSafeInteger(epoch) && epoch >= 0 && epoch < Number.MAX_SAFE_INTEGER ? epoch : 0;
}

/**
 * Returns the facts of the run, or null if no learner has published the run yet. Throws
 * ERR_HOTSLOT_UNAVAILABLE if the facts are damaged, or were published by another version of the
 * protocol.
 */
export async function readInfo(link: Link, key: string): Promise<RunInfo | null> {
  const values = await link.load(key, NAMES);
  const of = (name: (typeof NAMES)[number]) => values[NAMES.indexOf(name)] ?? '';
  if (of('protocol') === '') return null;
  if (of('protocol') !== `${PROTOCOL}`)
    throw unavailableError(
      `the learner speaks protocol ${of('protocol').slice(0, 10)}, this host ${PROTOCOL}: use one version of Hotslot on all machines`,
    );
  try {
    const whole = (name: (typeof NAMES)[number], most: number) => {
      const value = Number(of(name));
      if (!Number.isSafeInteger(value) || value < 0 || value > most)
        throw new Error(`${name} is odd`);
      return value;
    };
    const layout = of('layout');
    if (layout.length > MAX_CHARACTERS || of('options').length > MAX_CHARACTERS)
      throw new Error('it is too long');
    if (layoutSum(layout) !== whole('sum', 2 ** 32)) throw new Error('its layout is damaged');
    describeLayout(layout);
    return {
      epoch: whole('epoch', Number.MAX_SAFE_INTEGER),
      layout,
      weights: whole('weights', 2 ** 29),
      options: JSON.parse(of('options')),
      seed: whole('seed', Number.MAX_SAFE_INTEGER),
      shards: Math.max(1, whole('shards', 64)),
    };
  } catch (error) {
    throw unavailableError(
      `the server's record of this run cannot be used: ${(error as Error).message}`,
      undefined,
      error,
    );
  }
}
