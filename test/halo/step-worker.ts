/** One step in a thread of its own; see steps.ts. */
import { givenTask, perform } from '../rig/test-thread.ts';
import type { Plane } from './plane.ts';
import { type Step, steps } from './steps.ts';

export interface StepTask {
  step: Step;
  /** for a step of ranks that exist already */
  plane: Plane | undefined;
}

const { step, plane } = givenTask<{ step: Step; plane: Plane }>();
await perform(() => steps[step](plane));
