/** Options of update() and their checks. update() checks all options before it enqueues work. */
import { checkKeys, describeValue } from '../base/checks.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { Tensor } from '../device/device.ts';
import { checkVector } from './checks.ts';

type Floats = Tensor<'float32'>;

/**
 * Random numbers of one minibatch. Those of the built-in learners are standard normal numbers of
 * shape [rows, numbers]. The names of a traced learner's draws begin with their distribution.
 */
export interface Draw {
  readonly name: string;
  readonly shape: readonly number[];
}

/**
 * Tensors to which an update writes the results of one event. The update computes only those that
 * are given.
 */
export interface EventRecord {
  /** loss of the event, float32 [1] */
  loss?: Floats;
  /** global norm of the gradient before clipping, float32 [1] */
  norm?: Floats;
  /** gradient before clipping, contiguous float32, as long as the flat vector of parameters */
  gradient?: Floats;
}

export interface UpdateOptions {
  /** importance weights, float32 [rows]. They replace the batch's field `weights` */
  weights?: Floats;
  /** output, float32 [rows]. It replaces the batch's field `priorities` */
  priorities?: Floats;
  /**
   * random numbers that replace the learner's own, by the names in `draws`. Each tensor is contiguous
   * float32 and has the numbers of all minibatches of the update, in order
   */
  draws?: Readonly<Record<string, Floats>>;
  /**
   * tensors that receive the results of an event such as 'q' or 'actor.0', by the event's name. The
   * update records its last minibatch. Default none
   */
  record?: Readonly<Record<string, EventRecord>>;
}

/** Returns the elements of `out` that an update writes. Throws if `out` is too short. */
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
 * Checks the option `draws` of an update. `sizeOf` returns the number of elements that the tensor
 * of a name must have.
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
 * Checks the option `record` of an update. `events` contains the length of each event's gradient.
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
