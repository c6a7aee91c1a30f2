/** Evaluated weights as callers of train() get them, and their files. */
import { extname } from 'node:path';
import { writeWhole } from '../../base/arrays/files.ts';
import { writeSafetensors } from '../../base/arrays/safetensors.ts';
import type { NamedTensors, TensorData } from '../../base/arrays/tensors.ts';
import { checkPath, describeValue } from '../../base/checks.ts';
import { elementCount } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { ActorPolicy } from '../../learn/actor-critic/policies.ts';
import { Network } from '../../learn/network/network.ts';
import { encodeOnnx } from '../../learn/onnx/onnx.ts';
import { MlpPolicy } from '../../learn/policy.ts';
import type { Policy } from '../environments/explore.ts';
import type { TrainedPolicy } from './algorithms.ts';
import type { BestWeights, CurvePoint } from './progress.ts';

/** Weights that train() has evaluated, as `onPoint` receives them. */
export interface EvaluatedWeights<P extends Policy = TrainedPolicy> {
  /** copy of the published weights that were evaluated */
  readonly weights: Float32Array;
  /** policy of its own that acts greedily by `weights` */
  readonly policy: P;
  /**
   * Writes the weights to a file, whose name ends with .safetensors or .onnx. If the environments
   * give masks of legal actions, an ONNX model has the input `mask`.
   *
   * @param path a path or a `file:` URL. An existing file is replaced
   * @throws {TypeError} for a policy or a layer that has no ONNX form
   * @throws {RangeError} for a name with another ending
   * @throws {ERR_HOTSLOT_UNAVAILABLE} if the file cannot be written
   */
  save(path: string | URL): Promise<void>;
}

/** The best weights in a checkpoint. */
export type SavedBest = Omit<BestWeights, 'policy'>;

/** Keeps the weights of the evaluation with the greatest mean return, the later of equals. */
export class Best {
  #best: SavedBest | null;
  /** the best of all weights but those that were evaluated last */
  #others: SavedBest | null;

  constructor(best: SavedBest | null) {
    this.#best = best;
    this.#others = best;
  }

  /** Returns the best weights so far, null before the first evaluation. */
  get now(): SavedBest | null {
    return this.#best;
  }

  /**
   * Takes an evaluation. If `again` is true, the weights are those of the last call, and `point`
   * replaces the point of that call.
   */
  take(point: CurvePoint, weights: Float32Array, again: boolean): void {
    if (!again) this.#others = this.#best;
    const rival = this.#others;
    const wins = rival === null || point.meanReturn >= rival.point.meanReturn;
    this.#best = wins ? { point, weights } : rival;
  }
}

/**
 * Writes a policy's weights to a file, in the format that the name's ending says. `masked` says
 * whether the environments give masks, for which an ONNX model then has an input.
 */
export async function savePolicy(
  policy: Policy,
  weights: Float32Array,
  path: string | URL,
  masked: boolean,
): Promise<void> {
  const to = checkPath('save', path);
  const ending = extname(to);
  if (ending === '.safetensors')
    return await writeSafetensors(to, namedWeights(policy, weights), { format: 'pt' });
  if (ending !== '.onnx')
    throw rangeError(
      `save: the name of a file must end with .safetensors or .onnx, got ${describeValue(to)}`,
    );
  if (!(policy instanceof MlpPolicy || policy instanceof ActorPolicy))
    throw typeError(
      `save: ONNX files are for policies of hotslot/learner, and this policy is ${describeValue(policy)}; save a .safetensors file, or pass its network to encodeOnnx()`,
    );
  const model = encodeOnnx(policy, { mask: masked });
  await writeWhole(`save: '${to}'`, to, (put) => put(model));
}

/**
 * Names the parts of a published vector. A policy's network has the names of torch.nn.Sequential. A
 * normalizer follows it. The vector of a policy without a network is one tensor, `weights`.
 */
function namedWeights(policy: Policy, weights: Float32Array): NamedTensors {
  const tensor = (shape: readonly number[], offset: number): TensorData => ({
    dtype: 'float32',
    shape,
    data: weights.slice(offset, offset + elementCount(shape)),
  });
  const { network } = policy as { network?: unknown };
  if (!(network instanceof Network) || network.parameterCount > weights.length)
    return { weights: tensor([weights.length], 0) };
  const { parameterCount: end, inputs } = network;
  const named = network.parameters.map(
    ({ name, shape, offset }) => [name, tensor(shape, offset)] as const,
  );
  const rest = weights.length - end;
  const others =
    policy instanceof ActorPolicy && rest === 2 * inputs
      ? {
          'normaliser.mean': tensor([inputs], end),
          'normaliser.factor': tensor([inputs], end + inputs),
        }
      : rest > 0 && { rest: tensor([rest], end) };
  return { ...Object.fromEntries(named), ...others };
}
