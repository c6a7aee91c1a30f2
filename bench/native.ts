/**
 * Builds and runs the C++ programs of the benchmarks. One of them calls the CUDA driver without
 * Hotslot.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = join(root, 'build/bench');
const compiler = process.env.CXX ?? 'g++';
const flags = ['-std=c++17', '-Wall', '-Wextra', '-pthread', '-Inative'];
const own = ['raw_cuda', 'cuda_facts', 'cuda_facts_waiting', 'cuda_facts_work', 'cuda_facts_rules'];

/** Builds the program from its sources if it is missing or out of date. Returns its path. */
export function buildProgram(
  name: string,
  sources: readonly string[],
  headers: readonly string[],
  optimized: '-O1' | '-O2',
): string {
  const program = join(folder, name);
  const told = [...flags, optimized];
  const digest = createHash('sha256').update(told.join(' '));
  for (const file of [...sources, ...headers]) digest.update(readFileSync(join(root, file)));
  const key = digest.digest('hex');
  if (
    existsSync(program) &&
    existsSync(`${program}.key`) &&
    readFileSync(`${program}.key`, 'utf8') === key
  )
    return program;
  mkdirSync(folder, { recursive: true });
  const temporary = `${program}.${process.pid}`;
  const { status, stderr, error } = spawnSync(
    compiler,
    [...told, ...sources, '-ldl', '-o', temporary],
    {
      cwd: root,
      encoding: 'utf8',
    },
  );
  if (status !== 0)
    throw new Error(`${name} does not build with ${compiler}: ${error?.message ?? stderr}`);
  renameSync(temporary, program);
  writeFileSync(`${program}.key`, key);
  return program;
}

/** Builds the program that calls the CUDA driver. Returns its path. */
export function buildRawCuda(): string {
  const sources = [
    ...own.map((name) => `bench/native/${name}.cpp`),
    'native/kernels/images/images.cpp',
  ];
  const headers = [
    'bench/native/raw_cuda.hpp',
    'bench/native/cuda_facts.hpp',
    'native/device/cuda/abi.hpp',
  ];
  const images = ['images.hpp', 'images/hsaco.inc', 'images/ptx.inc', 'images/spirv.inc'];
  return buildProgram(
    'raw_cuda',
    sources,
    [...headers, ...images.map((file) => `native/kernels/${file}`)],
    '-O1',
  );
}

export interface RawCalls {
  /** microseconds of the calling thread for each call */
  launch: number;
  replay1: number;
  replay100: number;
  /** calls in a burst */
  burst1: number;
  burst100: number;
  record: number;
  query: number;
  recordTiming: number;
  queryTiming: number;
}

export interface RawCopy {
  allocatedMs: number;
  registeredMs: number;
}

function ask(device: string, what: string, ...numbers: number[]): object {
  const index = device.slice('cuda:'.length);
  const { status, stdout, stderr, error } = spawnSync(
    buildRawCuda(),
    [what, index, ...numbers.map(String)],
    {
      encoding: 'utf8',
    },
  );
  if (status !== 0) throw new Error(`the driver's own program failed: ${error?.message ?? stderr}`);
  return JSON.parse(stdout) as object;
}

export const rawCalls = (device: string, rounds: number) =>
  ask(device, 'calls', rounds) as RawCalls;
/** Returns the milliseconds of a copy from the faster of two kinds of pinned memory. */
export function rawCopyMs(device: string, rounds: number, bytes: number): number {
  const { allocatedMs, registeredMs } = ask(device, 'copy', rounds, bytes) as RawCopy;
  return Math.min(allocatedMs, registeredMs);
}
