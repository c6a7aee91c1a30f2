/**
 * Which cases a golden file has, and what checks each of them. A section is a list of cases of one
 * kind; in the section `cases` each case may name its own. What no line here names is unknown: it
 * is told, never passed over.
 */
import { type BookkeepingCase, checkBookkeeping } from './bookkeeping.ts';
import { Difference } from './differences.ts';
import { checkHalo, type HaloCase } from './halo.ts';
import { checkHer, type HerCase } from './her.ts';
import type { History } from './histories.ts';
import {
  checkActivation,
  checkClip,
  checkCrossEntropy,
  checkHuber,
  checkLayerNorm,
  checkLinear,
  checkMse,
  checkPolyak,
  checkSmoothL1,
  checkSoftmax,
  type LayerCase,
} from './layers.ts';
import { checkNstep, type NstepCase } from './nstep.ts';
import { checkC51, checkEmpirical, checkGaussian, checkOptimizer, checkRunning } from './parts.ts';
import {
  type BoundaryCase,
  checkBoundary,
  checkDraws,
  checkRefused,
  type DrawsCase,
  type RefusedCase,
} from './prioritized.ts';
import { checkSample, type SampleCase, sampleName } from './sample.ts';
import { checkStacks, type StacksCase } from './stacks.ts';
import { checkUpdate, type UpdateCase, updateKinds } from './updates.ts';
import { checkWindows, type WindowsCase } from './windows.ts';

export interface Case {
  /** the section and the place in it, and what the case calls itself */
  name: string;
  /** throws at the first difference */
  check(): void | Promise<void>;
}

export interface Contents {
  cases: Case[];
  /** by kind, how many cases nothing can check */
  unknown: Map<string, number>;
}

type Json = Readonly<Record<string, unknown>>;
interface Kind {
  name(golden: unknown): string;
  check(golden: unknown, file: Json): void | Promise<void>;
}

/** A case is what its file says it is; one that is not fails where it is looked at. */
const kind = <C>(
  name: (golden: C) => string,
  check: (golden: C) => void | Promise<void>,
): Kind => ({
  name: (golden) => name(golden as C),
  check: (golden) => check(golden as C),
});

/** A kind of cases about one of the file's `histories`. */
const about = <C extends { history: string }>(
  name: (golden: C) => string,
  check: (golden: C, history: History) => void,
): Kind => ({
  name: (golden) => `${(golden as C).history}, ${name(golden as C)}`,
  check(golden, file) {
    const id = (golden as C).history;
    const history = ((file.histories ?? []) as History[]).find((each) => each.id === id);
    if (history === undefined) throw new Difference(`the file has no history '${id}'`);
    check(golden as C, history);
  },
});

const leavesName = ({ leaves }: { leaves: number[] }): string => `leaves ${leaves}`;

/** By section; a section of sections is named with both. */
const sections: Readonly<Record<string, Kind>> = {
  'prioritized.cases': kind<DrawsCase>(({ name }) => name, checkDraws),
  'prioritized.boundary': kind<BoundaryCase>(leavesName, checkBoundary),
  'prioritized.refused': kind<RefusedCase>(leavesName, checkRefused),
  nstep: about<NstepCase>(({ n }) => `n ${n}`, checkNstep),
  windows: about<WindowsCase>(({ length, burnIn }) => `${burnIn} + ${length} steps`, checkWindows),
  stacks: about<StacksCase>(({ frames }) => `${frames} frames`, checkStacks),
  her: about<HerCase>(({ threshold }) => `threshold ${threshold}`, checkHer),
  bookkeeping: kind<BookkeepingCase>(({ name }) => name, checkBookkeeping),
};

const halo = kind<HaloCase>(({ name }) => name, checkHalo);
/** By what a case of the section `cases` says of its kind. */
const learnt = (check: (golden: LayerCase) => Promise<void>): Kind =>
  kind<LayerCase>(({ id }) => id, check);
const named: Readonly<Record<string, Kind>> = {
  scalar: halo,
  vector: halo,
  'layer.linear': learnt(checkLinear),
  'layer.layer_norm': learnt(checkLayerNorm),
  'layer.relu': learnt(checkActivation('relu')),
  'layer.silu': learnt(checkActivation('silu')),
  'layer.tanh': learnt(checkActivation('tanh')),
  'layer.elu': learnt(checkActivation('elu')),
  'layer.gelu_exact': learnt(checkActivation('gelu')),
  'layer.gelu_tanh': learnt(checkActivation('geluTanh')),
  'layer.softmax': learnt(checkSoftmax(false)),
  'layer.log_softmax': learnt(checkSoftmax(true)),
  'layer.cross_entropy_soft': learnt(checkCrossEntropy),
  'layer.mse': learnt(checkMse),
  'layer.huber': learnt(checkHuber),
  'layer.smooth_l1': learnt(checkSmoothL1),
  squashed_gaussian: learnt(checkGaussian),
  c51: learnt(checkC51),
  optimizer: learnt(checkOptimizer),
  'normalizer.empirical': learnt(checkEmpirical),
  'normalizer.running_mean_std': learnt(checkRunning),
  ...Object.fromEntries(
    updateKinds.map((name) => [name, kind<UpdateCase>(({ id }) => id, checkUpdate)]),
  ),
  polyak: learnt(checkPolyak),
  clip_grad_norm: learnt(checkClip),
};
/** The cases that do not say: uniform draws with their hashes. */
const nameless = kind<SampleCase>(sampleName, checkSample);

/** What cases refer to, and where a file came from. */
const noSections = ['histories', 'sources'];

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const own = <T>(table: Readonly<Record<string, T>>, key: string): T | undefined =>
  Object.hasOwn(table, key) ? table[key] : undefined;

function kindOf(section: string, golden: unknown): { kind: Kind | undefined; called: string } {
  if (section !== 'cases') return { kind: own(sections, section), called: section };
  if (!isObject(golden))
    return { kind: undefined, called: `${section} of ${JSON.stringify(golden)}` };
  if (golden.kind !== undefined)
    return { kind: own(named, String(golden.kind)), called: String(golden.kind) };
  return { kind: 'indicesSha256' in golden ? nameless : undefined, called: 'cases without a kind' };
}

/** The text of a case's name, as far as it can be told. */
function nameOf(kind: Kind, golden: unknown): string {
  try {
    const name = kind.name(golden);
    return name.length > 60 ? `${name.slice(0, 57)}…` : name;
  } catch {
    return 'without a name';
  }
}

/**
 * Sections with the names that the tables use: `prioritized` is one of sections. Anything else that
 * holds values is one.
 */
function sectionsOf(file: Json): [string, unknown][] {
  return Object.entries(file).flatMap(([name, value]) => {
    if (noSections.includes(name) || typeof value !== 'object' || value === null) return [];
    const nested =
      isObject(value) && Object.keys(sections).some((each) => each.startsWith(`${name}.`));
    if (!nested) return [[name, value] as [string, unknown]];
    return Object.entries(value).map(([inner, of]): [string, unknown] => [`${name}.${inner}`, of]);
  });
}

export function contentsOf(file: unknown): Contents {
  if (!isObject(file)) throw new Difference('a golden file is an object of sections');
  const cases: Case[] = [];
  const unknown = new Map<string, number>();
  for (const [section, value] of sectionsOf(file)) {
    const list: unknown[] | undefined = Array.isArray(value) ? value : undefined;
    if (list === undefined || (section !== 'cases' && own(sections, section) === undefined)) {
      unknown.set(section, list?.length ?? 1);
      continue;
    }
    for (const [i, golden] of list.entries()) {
      const { kind, called } = kindOf(section, golden);
      if (kind === undefined) unknown.set(called, (unknown.get(called) ?? 0) + 1);
      else
        cases.push({
          name: `${section}[${i}] (${nameOf(kind, golden)})`,
          check: () => kind.check(golden, file),
        });
    }
  }
  if (cases.length === 0 && unknown.size === 0)
    throw new Difference('there is no section with cases in it');
  return { cases, unknown };
}
