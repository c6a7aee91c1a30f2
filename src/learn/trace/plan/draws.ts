/**
 * Joins draws of a plan: neighbors in the generator's order that draw from one distribution become one
 * launch. Each draw advances the generator by whole blocks of numbers, so the numbers stay the same.
 */
import type { Stream, Tensor } from '../../../device/device.ts';
import { type DeviceGenerator, drawOnly, generatorState } from '../../../device/graph/generator.ts';
import type { Node } from '../tape.ts';
import type { Buffer, Launch, View } from './launches.ts';
import type { Demand } from './merge.ts';

type Floats = Tensor<'float32'>;

/** Numbers of a block of the generator. */
const BLOCK = 4;
const blocksOf = (size: number): number => Math.ceil(size / BLOCK);

/** Returns whether a launch draws random numbers. */
export const isDraw = ({ kernel }: Pick<Launch, 'kernel'>): boolean =>
  kernel === 'random_normal' || kernel === 'random_uniform';

/** Returns whether a run of a plan never leaves a section out. */
const always = ({ every = 1, optional = false }: Demand): boolean => every === 1 && !optional;

/** Returns whether a draw fills a buffer of its own. */
function fillsBuffer({ views }: Launch): boolean {
  const [{ buffer, offset, shape }] = views as [View];
  const { kind, output, tensor, size } = buffer;
  return kind === 'arena' && !output && !tensor && offset === 0 && shape[0] === size;
}

const sameNumbers = (one: Launch, two: Launch): boolean =>
  one.kernel === two.kernel && one.reals.every((real, i) => Object.is(real, two.reals[i]));

/** Returns one launch in place of several draws, and where the numbers of each draw are. */
function joined(draws: readonly Launch[]): { launch: Launch; moved: [Buffer, View][] } {
  const [first] = draws as [Launch];
  const buffers = draws.map(({ views }) => views[0]!.buffer);
  const ends: number[] = [];
  for (const { size } of buffers) ends.push((ends.at(-1) ?? 0) + BLOCK * blocksOf(size));
  const size = ends.at(-1)!;
  const buffer: Buffer = { ...buffers[0]!, size };
  const views = buffers.map(
    (own, i): View => ({ buffer, offset: ends[i - 1] ?? 0, shape: [own.size], strides: [1] }),
  );
  const chain = draws.map(({ node }) => node);
  return {
    launch: { ...first, views, writes: views.length, wholes: [size], chain },
    moved: buffers.map((own, i) => [own, views[i]!]),
  };
}

/**
 * Returns the launches of a plan with joined draws. A joined draw has the place of its first draw. Draws
 * in sections that a run may leave out stay apart, and the draws before them and after them too.
 *
 * @param launches in the order of their sections
 */
export function withJoinedDraws(
  launches: readonly Launch[],
  sections: readonly Demand[],
): readonly Launch[] {
  const groups: Launch[][] = [];
  let open: Launch[] | null = null;
  const used = new Set<Buffer>();
  for (const launch of launches) {
    if (isDraw(launch)) {
      const fits = fillsBuffer(launch) && !used.has(launch.views[0]!.buffer);
      if (!fits || !always(sections[launch.section]!)) open = null;
      else if (open && sameNumbers(open[0]!, launch)) open.push(launch);
      else {
        open = [launch];
        groups.push(open);
      }
    }
    for (const { buffer } of launch.views) used.add(buffer);
  }
  const places = new Map<Launch, Launch | null>();
  const moved = new Map<Buffer, View>();
  for (const draws of groups) {
    if (draws.length === 1) continue;
    const one = joined(draws);
    for (const [i, draw] of draws.entries()) places.set(draw, i === 0 ? one.launch : null);
    for (const [buffer, view] of one.moved) moved.set(buffer, view);
  }
  return launches.flatMap((launch) => {
    const place = places.get(launch);
    if (place !== undefined) return place === null ? [] : [place];
    if (!launch.views.some(({ buffer }) => moved.has(buffer))) return [launch];
    const views = launch.views.map((view) => {
      const to = moved.get(view.buffer);
      return to ? { ...view, buffer: to.buffer, offset: view.offset + to.offset } : view;
    });
    return [{ ...launch, views }];
  });
}

/**
 * Returns the index of the draw after which a run draws no other numbers, if no run leaves it out, or
 * −1. Only this draw may leave it to the caller to advance the generator.
 */
export function lastDraw(launches: readonly Launch[], sections: readonly Demand[]): number {
  const last = launches.findLastIndex(isDraw);
  return last >= 0 && always(sections[launches[last]!.section]!) ? last : -1;
}

/** A draw of a plan: its launch, the memory of all its numbers, and of those of each op. */
export interface Drawn {
  readonly launch: Launch;
  readonly whole: Floats;
  readonly parts: readonly Floats[];
}

/**
 * Enqueues a draw. Given numbers are copied, and then each other op draws its own.
 *
 * @param given contiguous tensors that replace random numbers, by the op that draws them
 * @param advances whether the generator advances after the last draw
 * @returns the number of blocks by which the generator has still to advance
 */
export function enqueueDraw(
  stream: Stream,
  generator: DeviceGenerator,
  { launch, whole, parts }: Drawn,
  given: ReadonlyMap<Node, Floats>,
  advances: boolean,
): number {
  const { kernel, reals, node, chain = [node] } = launch;
  const copied = chain.map((each) => given.get(each));
  let blocks = 0;
  const advance = () => {
    if (blocks > 0)
      stream.launch('random_advance', { tensors: [generatorState(generator)], wholes: [blocks] });
    blocks = 0;
  };
  const draw = (to: Floats) => {
    advance();
    const from = reals as [number, number];
    blocks = drawOnly(generator, stream, kernel as 'random_normal', to, from);
  };
  // A draw of one op may be a result, whose memory Plan.redirect() changes.
  if (copied.every((each) => each === undefined)) draw(parts.length > 1 ? whole : parts[0]!);
  else
    for (const [i, from] of copied.entries()) {
      const to = parts[i]!;
      if (from) stream.copy(to, from);
      else draw(to);
    }
  if (advances) advance();
  return blocks;
}
