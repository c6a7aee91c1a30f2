/** Options of an update, and their checks. update() runs them before it enqueues anything. */
import { checkKeys, describeValue } from '../base/checks.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { Tensor } from '../device/device.ts';
import { checkVector } from './checks.ts';

type Floats = Tensor<'float32'>;

/** Random numbers of one minibatch: standard normal, [rows, numbers]. */
export interface Draw {
  readonly name: string;
  readonly shape: readonly [rows: number, numbers: number];
}

/** Tensors to which an update writes an event. Each is optional, and costs nothing if omitted. */
export interface EventRecord {
  /** the event's loss, float32 [1] */
  loss?: Floats;
  /** global norm of the gradient before clipping, float32 [1] */
  norm?: Floats;
  /** the gradient before clipping, contiguous float32 of the flat vector's length */
  gradient?: Floats;
}

export interface UpdateOptions {
  /** importance weights, float32 [rows], as the batch's field of that name */
  weights?: Floats;
  /** output, float32 [rows], as the batch's field of that name */
  priorities?: Floats;
  /**
   * standard normal numbers in place of the learner's own, by the names of `draws`: contiguous
   * float32 for all rows of the batch
   */
  draws?: Readonly<Record<string, Floats>>;
  /** outputs by event, such as 'q' or 'actor.0', of an update's last minibatch, default none */
  record?: Readonly<Record<string, EventRecord>>;
}

/** Returns the floats of `out` that an update writes. */
export function scalarsOf(out: Floats, names: readonly string[]): Floats {
  if (!(out instanceof Tensor))
    throw typeError(`out must be a float32 tensor, got ${describeValue(out)}`);
  if (out.size < names.length)
    throw rangeError(
      `out needs at least ${names.length} floats for ${names.join(', ')}, got ${out.size}`,
    );
  const scalars = out.view({ shape: [names.length] });
  checkVector('out', scalars, names.length);
  return scalars;
}

/**
 * Checks the draws that an update was given. `sizeOf`: the count of numbers that an update draws by
 * a name.
 */
export function checkDraws(
  draws: UpdateOptions['draws'] & object,
  names: readonly string[],
  sizeOf: (name: string) => number,
): void {
  checkKeys('update: draws', draws, names);
  for (const [name, numbers] of Object.entries(draws))
    checkVector(`draws.${name}`, numbers, sizeOf(name));
}

/**
 * Checks the records that an update was given. `events`: each event's name, with the length of its
 * gradient.
 */
export function checkRecords(
  record: UpdateOptions['record'] & object,
  events: Readonly<Record<string, number>>,
): void {
  checkKeys('update: record', record, Object.keys(events));
  for (const [event, wanted] of Object.entries(record)) {
    checkKeys(`update: record of '${event}'`, wanted, ['loss', 'norm', 'gradient']);
    const sizes = { loss: 1, norm: 1, gradient: events[event] as number };
    for (const [key, size] of Object.entries(sizes)) {
      const into = wanted[key as keyof EventRecord];
      if (into) checkVector(`record.${event}.${key}`, into, size);
    }
  }
}
