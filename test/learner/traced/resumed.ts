/** The training of the test of killed and resumed traced learners. */
import type { DescribedLearner } from '../../../src/entries/trace.ts';
import type { Checkpoint } from '../../../src/index.ts';
import { Rig, ROWS, tracedTd3 } from './rig.ts';

/** What a training does besides its updates. */
interface Hooks {
  /** loads a state, and returns an open checkpoint */
  begin?(learner: DescribedLearner): Promise<Checkpoint>;
  after?(update: number, checkpoint: Checkpoint | undefined): Promise<void>;
}

/**
 * Trains until the learner has done `updates` updates, each a replay of one capture with the batch of
 * its number. Returns the state as text.
 */
export async function trained(updates: number, { begin, after }: Hooks = {}): Promise<string> {
  const rig = new Rig();
  try {
    const learner = rig.keep(tracedTd3(rig.device));
    await learner.ready;
    const checkpoint = await begin?.(learner);
    const fed = rig.batch(ROWS, 'numbers');
    const out = rig.zeros(learner.scalars.length);
    const replay = rig.captured((stream) => learner.update(stream, fed, out));
    const first = (await learner.state()).updates?.data[0] as number;
    for (let update = first; update < updates; update++) {
      const batch = rig.batch(ROWS, 'numbers', update);
      for (const [name, tensor] of Object.entries(fed)) rig.stream.copy(tensor, batch[name]!);
      replay();
      await after?.(update, checkpoint);
    }
    await checkpoint?.close();
    const state = await learner.state();
    return JSON.stringify(
      Object.entries(state).map(([name, { data }]) => [name, Array.from(data, String)]),
    );
  } finally {
    rig.close();
  }
}
