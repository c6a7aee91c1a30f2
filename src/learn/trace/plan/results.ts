/** The memory of a plan's results. */
import type { Tensor } from '../../../device/device.ts';
import { isDense } from '../../../device/strides.ts';
import { sizeOf } from '../shapes.ts';
import type { Node } from '../tape.ts';
import type { Buffer, Launch, Value } from './launches.ts';
import type { Lowering } from './lowering.ts';

type Floats = Tensor<'float32'>;

/** A result of a section before it has memory of its own. */
export interface SectionResult {
  readonly node: Node;
  readonly into: Floats | undefined;
  readonly reported: boolean;
  readonly section: number;
  readonly value: Value;
}

/** A use of a buffer by a launch. */
interface Use {
  readonly section: number;
  readonly writes: boolean;
}

/** Returns the uses of each buffer. */
export function usersOf(launches: readonly Launch[]): ReadonlyMap<Buffer, readonly Use[]> {
  const users = new Map<Buffer, Use[]>();
  for (const { views, writes, section } of launches)
    for (const [v, { buffer }] of views.entries()) {
      const own = users.get(buffer) ?? [];
      own.push({ section, writes: v < writes });
      users.set(buffer, own);
    }
  return users;
}

/** Returns the value of a result in memory of its own, which stays until the plan's end. */
export function keep(
  lowering: Lowering,
  result: SectionResult,
  results: readonly SectionResult[],
  users: ReadonlyMap<Buffer, readonly Use[]>,
): Value {
  const { node, into, section, value } = result;
  const { shape } = node;
  lowering.enter(section);
  const { buffer } = value;
  const owned = buffer.kind === 'arena' && buffer.size === sizeOf(shape) && value.offset === 0;
  // Given memory changes only when the section runs. Other sections may read it until it is written
  // again, as the gradient of an optimizer that steps in two phases.
  const alone = ({ handle, byteOffset }: Floats) => {
    const others = (users.get(buffer) ?? []).filter((use) => use.section !== section);
    if (others.some(({ writes }) => writes)) return false;
    const again = results.some(
      (other) =>
        other !== result && other.into?.handle === handle && other.into.byteOffset === byteOffset,
    );
    return !(
      again &&
      (others.length > 0 ||
        results.some((other) => other.section !== section && other.value.buffer === buffer))
    );
  };
  const free = into ? !buffer.output && alone(into) : buffer.tensor === null;
  const kept = owned && free && isDense(shape, value.strides) ? value : lowering.kept(node, value);
  kept.buffer.output = true;
  kept.buffer.tensor = into ?? null;
  return kept;
}
