/**
 * MuJoCo in this thread: loaded once, by the root import (the package's other entry starts a thread
 * for each core).
 */
import type { MainModule, MjData, MjModel } from '@mujoco/mujoco';

export type { MainModule, MjData, MjModel };

let engine: Promise<MainModule> | undefined;

/** Rejects with what to install where the package is missing. */
export function mujoco(): Promise<MainModule> {
  engine ??= load();
  return engine;
}

async function load(): Promise<MainModule> {
  try {
    const { default: start } = await import('@mujoco/mujoco');
    return await start();
  } catch (error) {
    if ((error as { code?: string }).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new Error('the robots need the package @mujoco/mujoco: npm install @mujoco/mujoco', {
      cause: error,
    });
  }
}
