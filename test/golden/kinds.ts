/**
 * Finds the cases of a golden file and the check of each case. A section is a list of cases of one
 * kind. In the section `cases`, each case may name its own kind. An unknown kind is reported, and
 * never skipped silently.
 */
import { type BookkeepingCase, checkBookkeeping } from './bookkeeping.ts';
import { Difference } from './differences.ts';
import { checkExpression, type ExpressionCase } from './expressions.ts';
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
import { checkTraced, tracedKinds } from './traced-updates.ts';
import { checkUpdate, type UpdateCase, updateKinds } from './updates.ts';
import { checkWindows, type WindowsCase } from './windows.ts';

export interface Case {
  /** the section, the index in it, and the case's own name */
  name: string;
  /** throws at the first difference */
  check(): void | Promise<void>;
}

export interface Contents {
  cases: Case[];
  /** number of cases of each unknown kind */
  unknown: Map<string, number>;
  /** number of cases of each kind that the caller leaves out */
  left: Map<string, number>;
}

type Json = Readonly<Record<string, unknown>>;
interface Kind {
  name(golden: unknown): string;
  check(golden: unknown, file: Json): void | Promise<void>;
}

/** The types of a case are not checked. A case with other types fails in its check. */
const kind = <C>(
  name: (golden: C) => string,
  check: (golden: C) => void | Promise<void>,
): Kind => ({
  name: (golden) => name(golden as C),
  check: (golden) => check(golden as C),
});

/** A kind of cases that belong to one of the file's `histories`. */
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

/** The kinds by section. A section within a section has both names. */
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
/** The kinds by the `kind` of a case of the section `cases`. */
const learnt = (check: (golden: LayerCase) => Promise<void>): Kind =>
  kind<LayerCase>(({ id }) => id, check);
const named: Readonly<Record<string, Kind>> = {
  expr: kind<ExpressionCase>(({ id }) => id, checkExpression),
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
  ...Object.fromEntries(
    Object.keys(tracedKinds).map((name) => [name, kind<UpdateCase>(({ id }) => id, checkTraced)]),
  ),
  polyak: learnt(checkPolyak),
  clip_grad_norm: learnt(checkClip),
};
/** The kind of cases that name none: uniform draws with their hashes. */
const nameless = kind<SampleCase>(sampleName, checkSample);

/** Parts of a file that are no cases: what cases refer to, and where the file came from. */
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

/** Returns the case's name, or a text if it has none. */
function nameOf(kind: Kind, golden: unknown): string {
  try {
    const name = kind.name(golden);
    return name.length > 60 ? `${name.slice(0, 57)}…` : name;
  } catch {
    return 'without a name';
  }
}

/**
 * Returns the sections of a file with the names of the tables above. `prioritized` contains
 * sections. Every other object or list is a section.
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

/**
 * Returns the cases of a file.
 *
 * @param only kinds to check, or the first part of a kind's name before the dot. Default: all. Cases
 *   of other kinds are counted in `left`
 */
export function contentsOf(file: unknown, only?: readonly string[]): Contents {
  if (!isObject(file)) throw new Difference('a golden file is an object of sections');
  const cases: Case[] = [];
  const unknown = new Map<string, number>();
  const left = new Map<string, number>();
  const wanted = (called: string) =>
    only === undefined || only.some((each) => called === each || called.startsWith(`${each}.`));
  for (const [section, value] of sectionsOf(file)) {
    const list: unknown[] | undefined = Array.isArray(value) ? value : undefined;
    if (section !== 'cases' && !wanted(section)) {
      left.set(section, list?.length ?? 1);
      continue;
    }
    if (list === undefined || (section !== 'cases' && own(sections, section) === undefined)) {
      unknown.set(section, list?.length ?? 1);
      continue;
    }
    for (const [i, golden] of list.entries()) {
      const { kind, called } = kindOf(section, golden);
      if (!wanted(called)) left.set(called, (left.get(called) ?? 0) + 1);
      else if (kind === undefined) unknown.set(called, (unknown.get(called) ?? 0) + 1);
      else
        cases.push({
          name: `${section}[${i}] (${nameOf(kind, golden)})`,
          check: () => kind.check(golden, file),
        });
    }
  }
  if (cases.length === 0 && unknown.size === 0 && left.size === 0)
    throw new Difference('there is no section with cases in it');
  return { cases, unknown, left };
}
