/** Runs `raw_cuda facts` on the software driver. See bench/native/cuda_facts.hpp. */
import { spawnSync } from 'node:child_process';
import { factsOf } from '../../bench/facts.ts';
import { buildRawCuda } from '../../bench/native.ts';
import { buildSoftwareDriver } from './build.ts';

/**
 * Runs the chosen parts, or all, and returns their facts. A part ends after `seconds` at the
 * latest.
 */
export function toldBy(chosen: readonly string[], env: NodeJS.ProcessEnv = {}, seconds = 30) {
  const software = {
    HOTSLOT_CUDA: buildSoftwareDriver('cuda'),
    HOTSLOT_CUBLAS: buildSoftwareDriver('cublas'),
    HOTSLOT_SOFTWARE_CUDA: '13.0',
    CUDA_DEVICE_MAX_CONNECTIONS: '32',
  };
  const { status, stdout, stderr } = spawnSync(
    buildRawCuda(),
    ['facts', '0', String(seconds), ...chosen],
    {
      env: { ...process.env, ...software, ...env },
      encoding: 'utf8',
    },
  );
  return { status, stdout, stderr, told: factsOf(stdout) };
}
