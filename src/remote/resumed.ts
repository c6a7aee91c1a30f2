/** The marks of remote collectors in a checkpoint: with them, a learner that goes on takes no row twice. */
import { shown } from '../checks.ts';
import { typeError } from '../errors.ts';
import { type Marks, MOST_SESSIONS, type SavedMark } from './marks.ts';

const KIND = 'hotslot.RemoteCollectors.state';

/** Goes through structured cloning. */
interface SavedRemote {
  readonly kind: typeof KIND;
  readonly marks: readonly SavedMark[];
}

/** While nobody adds. */
export const savedRemote = (marks: readonly Marks[]): SavedRemote => ({
  kind: KIND,
  marks: marks.flatMap((each) => each.saved()),
});

export function checkResumed(resume: unknown): readonly SavedMark[] {
  if (resume === undefined || resume === null) return [];
  const { kind, marks } = resume as Partial<SavedRemote>;
  if (kind !== KIND || !Array.isArray(marks) || marks.length > MOST_SESSIONS)
    throw typeError(
      `resume must be what Checkpoint.restore() gave as collectors of RemoteCollectors, got ${shown(resume)}`,
    );
  return marks;
}
