/** Environments of Gymnasium, stepped by a Python of their own. */
import type { EnvironmentSet, EnvironmentSets } from '../environment-set.ts';
import { type Spaces, spacesOf } from '../spaces.ts';
import { Child } from './child.ts';
import { Answer, Request, spacesIn } from './frames.ts';
import { checkEnvironments, checkedGymnasium, type GymnasiumOptions } from './options.ts';
import { GymnasiumSteps } from './steps.ts';

/**
 * For `vectorCollector({ make })`, and as the default export of a module for train(): each collector thread starts a process that
 * makes its environments and steps them together. Errors tell what Python printed. Needs a Python with numpy, and with Gymnasium for
 * what is named by id. Throws TypeError or RangeError for options.
 */
export function gymnasium(options: GymnasiumOptions): EnvironmentSets {
  const plan = checkedGymnasium(options);
  return {
    async open({ count, options: more }): Promise<EnvironmentSet> {
      checkEnvironments(count);
      const kwargs = { ...plan.kwargs, ...(typeof more === 'object' ? more : {}) };
      const { child, greeting } = await Child.start(plan, count, kwargs);
      try {
        if (greeting.count !== count)
          throw new Error(`${plan.name} has ${greeting.count} environments where ${count} were asked for`);
        const spaces: Spaces = spacesOf(spacesIn(greeting));
        const request = new Request(spaces, count);
        const answer = new Answer(spaces, count, greeting.autoreset === 'same-step');
        const ask = (operation: number) => {
          request.operation[0] = operation;
          child.exchange(request.bytes, answer.bytes);
        };
        return {
          ...{ count, spaces },
          play: (hooks) =>
            new GymnasiumSteps({ spaces, count, request, answer, ask, autoreset: greeting.autoreset, hooks }),
          close: () => child.close(),
        };
      } catch (error) {
        await child.close().catch(() => {});
        throw error;
      }
    },
  };
}
