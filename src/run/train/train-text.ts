/** How a training looks on a terminal, and in a file. */
import type { TrainPlan } from './train-options.ts';
import type { TrainProgress } from './train-told.ts';

const whole = (value: number): string => Math.round(value).toLocaleString('en-US');
/** Three digits that count. */
const short = (value: number): string =>
  Math.abs(value) >= 100 || value === 0 ? value.toFixed(1) : String(Number(value.toPrecision(3)));

const BAR = 24;

function greedy({ point }: TrainProgress, { goal }: TrainPlan): string {
  const wanted = Number.isFinite(goal) ? `, wanted ${short(goal)}` : '';
  if (point === null) return `no look at the weights yet${wanted}`;
  return `${short(point.meanReturn)} ± ${short(point.deviation)} greedy at ${whole(point.steps)} steps${wanted}`;
}

const exploring = ({ meanReturn }: TrainProgress): string =>
  Number.isNaN(meanReturn) ? 'no episode is over yet' : `return ${short(meanReturn)} exploring`;

export function liveLines(progress: TrainProgress, plan: TrainPlan): string[] {
  const { steps, updates, seconds, episodes, scalars, waitingFor } = progress;
  const done = Math.min(1, steps / plan.steps);
  const bar = '━'.repeat(Math.round(done * BAR)).padEnd(BAR, '·');
  const rate = (count: number) => `${whole(count / Math.max(seconds, 1e-3))}/s`;
  const numbers = Object.entries(scalars).map(([name, value]) => `${name} ${short(value)}`);
  return [
    `${plan.algorithm}  ${bar}  ${whole(steps)} of ${whole(plan.steps)} steps (${rate(steps)})  ${seconds.toFixed(1)} s`,
    `${exploring(progress)} (${whole(episodes)} episodes)  ${greedy(progress, plan)}`,
    `${whole(updates)} updates (${rate(updates)})  ${numbers.join('  ')}`,
    ...(waitingFor === 'nothing' || waitingFor === '' ? [''] : [`waits for ${waitingFor}`]),
  ];
}

export function plainLine(progress: TrainProgress, plan: TrainPlan): string {
  const { steps, updates, seconds } = progress;
  const parts = [`${seconds.toFixed(1).padStart(6)} s`, `${whole(steps)} of ${whole(plan.steps)} steps`];
  return [...parts, `${whole(updates)} updates`, exploring(progress), greedy(progress, plan)].join('  ');
}
