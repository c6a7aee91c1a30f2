/**
 * The marks of remote collectors in a checkpoint. With them, a restored learner adds no row twice.
 */
import { describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { MAX_SESSIONS, type SavedOffset, type SessionOffsets } from './session-offsets.ts';

const KIND = 'hotslot.RemoteCollectors.state';

/** The state in a checkpoint, which structured cloning copies. */
interface SavedRemote {
  readonly kind: typeof KIND;
  /** missing in older checkpoints */
  readonly shards?: number;
  readonly marks: readonly SavedOffset[];
}

/** Returns the state for a checkpoint. Call it while no rows are added. */
export const savedRemote = (marks: readonly SessionOffsets[]): SavedRemote => ({
  kind: KIND,
  shards: marks.length,
  marks: marks.flatMap((each) => each.saved()),
});

export function checkResumed(resume: unknown, shards: number): readonly SavedOffset[] {
  if (resume === undefined || resume === null) return [];
  const { kind, marks, shards: before = shards } = resume as Partial<SavedRemote>;
  if (kind !== KIND || !Array.isArray(marks) || marks.length > MAX_SESSIONS)
    throw typeError(
      `resume must be the collectors of RemoteCollectors that Checkpoint.restore() returned, got ${describeValue(resume)}`,
    );
  // A host always uses the same stream. With another number of shards, a thread without the host's
  // mark would receive its messages.
  if (before !== shards)
    throw rangeError(
      `shards must be ${describeValue(before)}, as in the run that resume is from, got ${shards}`,
    );
  return marks;
}
