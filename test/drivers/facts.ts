/** `raw_cuda facts` over the software driver, see bench/native/cuda_facts.hpp. */
import { spawnSync } from 'node:child_process';
import { buildRawCuda } from '../../bench/native.ts';
import { buildSoftwareDriver } from './build.ts';

/** By 'part.name'. */
export type Told = Readonly<Record<string, unknown>>;

/** A line of JSON per fact. */
export const factsOf = (text: string): Told =>
  Object.fromEntries(
    text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line || '{}') as Record<string, unknown>)
      .flatMap(({ part, ...fact }) => Object.entries(fact).map(([name, value]) => [`${part}.${name}`, value])),
  );

/** The chosen parts, or all; each is ended after so many seconds. */
export function toldBy(chosen: readonly string[], env: NodeJS.ProcessEnv = {}, seconds = 30) {
  const software = {
    HOTSLOT_CUDA: buildSoftwareDriver('cuda'),
    HOTSLOT_CUBLAS: buildSoftwareDriver('cublas'),
    HOTSLOT_SOFTWARE_CUDA: '13.0',
    CUDA_DEVICE_MAX_CONNECTIONS: '32',
  };
  const { status, stdout, stderr } = spawnSync(buildRawCuda(), ['facts', '0', String(seconds), ...chosen], {
    env: { ...process.env, ...software, ...env },
    encoding: 'utf8',
  });
  return { status, stdout, stderr, told: factsOf(stdout) };
}
