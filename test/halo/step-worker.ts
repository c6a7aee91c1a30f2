/** Runs one step of steps.ts in a thread of its own. */
import { givenTask, perform } from '../rig/test-thread.ts';
import type { Plane } from './plane.ts';
import { type Step, steps } from './steps.ts';

export interface StepTask {
  step: Step;
  /** the plane, for a step with ranks that exist already */
  plane: Plane | undefined;
}

const { step, plane } = givenTask<{ step: Step; plane: Plane }>();
await perform(() => steps[step](plane));
