/** Makes the model of the page: trains it, or converts saved weights to it. */
import { accessSync, constants, existsSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { train } from '../../src/entries/collect.ts';
import { encodeOnnx, readSafetensors } from '../../src/entries/formats.ts';
import { DqnPolicy } from '../../src/entries/learner.ts';
import { Refused, toFile } from '../command-line.ts';
import { type Task, tasks } from '../train/presets.ts';

const task = tasks.CartPole as Task;
const game = { obsDim: 4, actions: 2 };

export interface Made {
  meanReturn: number | null;
  seconds: number;
  interrupted: boolean;
}

/**
 * Trains the policy and writes its model, unless `file` exists. Returns null if it exists. If the
 * signal ends the training, nothing is written.
 */
export async function makePolicy(
  file: string,
  how: { seed: number; device: string; signal: AbortSignal; display: boolean },
): Promise<Made | null> {
  if (existsSync(file)) return null;
  const preset = task.presets.dqn!;
  // Checked before the training, because otherwise the training would be in vain.
  toFile('policy', file, (path) => accessSync(dirname(path), constants.W_OK));
  // The goal 500 means that the pole never falls in the last evaluation. A viewer would be
  // surprised by a policy that lets it fall.
  const result = await train({ ...preset, ...how, environment: task.module, goal: 500 });
  if (!result.interrupted) {
    const { hidden } = preset.learner as { hidden?: readonly number[] };
    write(file, new DqnPolicy({ ...game, ...(hidden && { hidden }) }).load(result.weights));
  }
  return result;
}

const write = (file: string, policy: DqnPolicy) =>
  toFile('policy', file, (path) => writeFileSync(path, encodeOnnx(policy)));

/**
 * Converts a file with a DqnLearner's state() to a model. The network must consist of plain linear
 * layers, whose shapes define its sizes.
 */
export async function convertCheckpoint(checkpoint: string, file: string): Promise<void> {
  const refuse = (why: string) => new Refused(`--checkpoint ${checkpoint}: ${why}`);
  const { tensors } = await readSafetensors(checkpoint).catch((error: Error) => {
    throw refuse(error.message);
  });
  const layers = Object.entries(tensors).filter(([name]) => /^online\.\d+\.weight$/.test(name));
  const wide = new Map(
    layers.map(([name, { shape }]) => [Number(name.split('.')[1]), shape[0] as number]),
  );
  const places = [...wide.keys()].sort((a, b) => a - b);
  const hidden = places.slice(0, -1).map((place) => wide.get(place) as number);
  const policy = new DqnPolicy({ ...game, hidden });
  const weights = new Float32Array(policy.network.parameterCount);
  for (const { name, offset, shape } of policy.network.parameters) {
    const tensor = tensors[`online.${name}`];
    if (tensor?.dtype !== 'float32' || tensor.shape.join() !== shape.join())
      throw refuse(
        `it is no DqnLearner's for CartPole with plain layers: 'online.${name}' must be float32 [${shape}], ${tensor ? `is ${tensor.dtype} [${tensor.shape}]` : 'and is not there'}`,
      );
    weights.set(tensor.data as Float32Array, offset);
  }
  write(file, policy.load(weights));
}
