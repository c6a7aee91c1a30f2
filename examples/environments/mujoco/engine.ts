/**
 * Loads MuJoCo into this thread, once. The root import runs in this thread only. The package's
 * other entry starts a thread for each core.
 */
import type { MainModule, MjData, MjModel } from '@mujoco/mujoco';

export type { MainModule, MjData, MjModel };

let engine: Promise<MainModule> | undefined;

/** Returns MuJoCo. If the package is missing, rejects with an error that says what to install. */
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
