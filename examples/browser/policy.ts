/** The model: trained and written down where it is not there. */
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

/** Null where the file is there. Nothing is written when the signal ends the training. */
export async function makePolicy(
  file: string,
  how: { seed: number; device: string; signal: AbortSignal; display: boolean },
): Promise<Made | null> {
  if (existsSync(file)) return null;
  const preset = task.presets.dqn!;
  // Before the training, which would else be in vain.
  toFile('policy', file, (path) => accessSync(dirname(path), constants.W_OK));
  // Every episode of the last look to its end: who looks on would wonder about others.
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
 * Makes the model of the weights in a file of a DqnLearner's state(): a plain network's, whose
 * layers say how wide they are.
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
