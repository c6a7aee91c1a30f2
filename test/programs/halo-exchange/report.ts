/** The result of a run, as text and as a plain object. */
import { availableParallelism } from 'node:os';
import { wrapped } from '../../../examples/command-line.ts';
import { STAGES } from './advection.ts';
import type { Mode } from './domain.ts';
import type { PartResult } from './part.ts';
import { frame, framesAt, type Plan } from './plan.ts';
import type { Comparison } from './run.ts';
import { drawText } from './text-picture.ts';

export interface Summary {
  mode: Mode;
  workers: number;
  cells: number;
  /** exchanges of the tracer of each worker, one per stage of a step */
  exchanges: number;
  /**
   * means over all workers and exchanges: packing, computing the interior while the halo is on its
   * way, and waiting for the rest
   */
  startMicroseconds: number;
  interiorMicroseconds: number;
  waitMicroseconds: number;
  /** fraction of the time from the end of start() to the end of wait() that was spent computing */
  hidden: number;
  /** fraction of exchanges whose halo had arrived when the interior was done */
  early: number;
  stepMicroseconds: number;
  undividedStepMicroseconds: number;
  massBefore: number;
  massAfter: number;
  equal: boolean;
  differentCells: number;
}

export function summarise(
  plan: Plan,
  parts: readonly PartResult[],
  undividedMs: number,
  compared: Comparison,
): Summary {
  const { mode, steps, ranks } = plan;
  const exchanges = STAGES * steps;
  const sum = (of: keyof PartResult) => parts.reduce((all, part) => all + part[of], 0);
  const mean = (of: keyof PartResult) => sum(of) / ranks;
  const [meanwhile, wait] = [mean('meanwhile'), mean('wait')];
  return {
    mode,
    workers: ranks,
    cells: compared.cells,
    exchanges,
    startMicroseconds: (1000 * mean('start')) / exchanges,
    interiorMicroseconds: (1000 * meanwhile) / exchanges,
    waitMicroseconds: (1000 * wait) / exchanges,
    hidden: meanwhile / (meanwhile + wait),
    early: mean('early') / exchanges,
    stepMicroseconds: (1000 * mean('steps')) / steps,
    undividedStepMicroseconds: (1000 * undividedMs) / steps,
    massBefore: sum('massBefore'),
    massAfter: sum('massAfter'),
    equal: compared.different === 0,
    differentCells: compared.different,
  };
}

/** From this number of columns on, the text also shows the field after a third of the steps. */
const ROOM_FOR_THREE = 112;

export function textOf(
  plan: Plan,
  summary: Summary,
  { example }: Comparison,
  columns: number,
): string {
  const { mode, size, steps } = plan;
  const indices = columns < ROOM_FOR_THREE ? [0, 2] : [0, 1, 2];
  const panels = indices.map((index) => {
    const step = framesAt(steps)[index]!;
    return {
      title: step === 0 ? 'at first' : `after ${step} steps`,
      field: frame(plan, plan.parts, index),
    };
  });
  const { massBefore, massAfter, cells } = summary;
  const us = (of: `${string}Microseconds` & keyof Summary) => summary[of].toFixed(0);
  const [start, interior, wait] = [
    us('startMicroseconds'),
    us('interiorMicroseconds'),
    us('waitMicroseconds'),
  ];
  const step = us('stepMicroseconds');
  const threads = `${summary.workers} threads on ${availableParallelism()} cores`;
  const percent = (of: keyof Summary) => `${(100 * (summary[of] as number)).toFixed(0)} %`;
  const change = Math.abs(massAfter - massBefore);
  const changed = change === 0 ? 'unchanged' : `differs by ${change.toExponential(0)}`;
  const equal = summary.equal
    ? `yes (${cells} cells, bit for bit)`
    : `NO, ${summary.differentCells} of ${cells} cells differ`;
  return [
    `${mode}: ${summary.workers} workers with ${size} × ${size} cells each, ${steps} steps`,
    '',
    drawText(mode, size, panels, columns),
    '',
    `  exchanges        ${summary.exchanges} by each worker, ${STAGES} per step`,
    `  µs per exchange  start ${start}, interior ${interior}, wait ${wait}`,
    `  hidden           ${percent('hidden')} of start() to the last arrival was spent computing;`,
    `                   ${percent('early')} of the exchanges needed no waiting`,
    `  µs per step      ${step} with ${threads}, undivided ${us('undividedStepMicroseconds')}`,
    `  mass             ${massBefore.toFixed(12)} before, ${massAfter.toFixed(12)} after, ${changed}`,
    '',
    `equal to the undivided run: ${equal}`,
    ...(example === null ? [] : [wrapped(example, columns)]),
  ].join('\n');
}
