/**
 * Measures checkpoints: how fast rows are saved and restored compared with dd, how much memory that
 * takes, and what it costs a running pipeline.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { availableParallelism, freemem, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Checkpoint } from '../src/index.ts';
import { reportPipelines } from './checkpoint-pipeline.ts';
import { type Benchmark, beside, filledRows, touchedRows } from './harness.ts';

const FLOATS = 256;
const ROW_BYTES = FLOATS * 4;
const MIB = 2 ** 20;

function inFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-bench-'));
  return use(folder).finally(() => rmSync(folder, { recursive: true }));
}

function dd(...args: string[]): void {
  const { status, stderr, error } = spawnSync('dd', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`dd ${args.join(' ')}: ${error?.message ?? stderr}`);
}
/** Drops the file from the page cache, so that the next read comes from the disk. */
const forget = (file: string) => dd(`if=${file}`, 'iflag=nocache', 'count=0');
const filesOf = (folder: string) => readdirSync(folder).map((name) => join(folder, name));

async function timed(act: () => unknown): Promise<number> {
  const begin = performance.now();
  await act();
  return (performance.now() - begin) * 1000;
}

/** Compares a first save and a restore with dd, which writes and reads as many bytes, in turn. */
async function reportSpeed(report: Parameters<Benchmark>[0], quick: boolean): Promise<void> {
  const bytes = (quick ? 128 : 1024) * MIB;
  const saved = filledRows(bytes / ROW_BYTES, FLOATS);
  const times: Record<'save' | 'restore' | 'write' | 'read', number[]> = {
    save: [],
    restore: [],
    write: [],
    read: [],
  };
  const rounds = quick ? 3 : 9;
  await inFolder(async (folder) => {
    const [into, plain] = [join(folder, 'saved'), join(folder, 'plain')];
    const contenders = {
      async dd() {
        const write = await timed(() =>
          dd('if=/dev/zero', `of=${plain}`, 'bs=1M', `count=${bytes / MIB}`, 'conv=fsync'),
        );
        forget(plain);
        const read = await timed(() => dd(`if=${plain}`, 'of=/dev/null', 'bs=1M'));
        rmSync(plain);
        return { write, read };
      },
      async ours() {
        const checkpoint = await Checkpoint.open(into, { buffer: saved });
        const save = await timed(() => checkpoint.save());
        await checkpoint.close();
        for (const file of filesOf(into)) forget(file);
        const fresh = touchedRows(saved.capacity, FLOATS);
        const restore = await timed(() => Checkpoint.restore(into, { buffer: fresh }));
        if (fresh.ptr !== saved.ptr) throw new Error(`${fresh.ptr} rows came back of ${saved.ptr}`);
        fresh.close();
        rmSync(into, { recursive: true });
        return { save, restore };
      },
    };
    // The first round's times are dropped. The order of the two alternates, because a disk may
    // write the first bytes faster.
    for (let round = -1; round < rounds; round++) {
      for (const name of round % 2 === 0 ? (['dd', 'ours'] as const) : (['ours', 'dd'] as const)) {
        // Frees the removed files' blocks here, so that neither contender spends time on that.
        spawnSync('sync');
        const took = await contenders[name]();
        globalThis.gc?.();
        if (round < 0) continue;
        for (const [what, us] of Object.entries(took))
          times[what as keyof typeof times].push(us as number);
      }
    }
  });
  saved.close();
  const rate = (us: number) => bytes / us;
  const what = `${bytes / MIB} MiB of rows`;
  const pairs = [
    ['save', 'first save', 'dd writes as much', 'write'],
    ['restore', 'restore of files not in memory', 'dd writes as much', 'write'],
    ['restore', 'restore of files not in memory', 'dd reads as much', 'read'],
  ] as const;
  for (const [ours, doing, other, others] of pairs)
    report({
      case: `${what}, ${doing}; ${other}`,
      metric: 'speed',
      unit: 'MB/s',
      ...beside(times[ours], times[others], rate),
    });
}

/**
 * Reports the peak memory of a process that saves a large buffer, and of another that restores it.
 */
async function reportMemory(report: Parameters<Benchmark>[0], quick: boolean): Promise<void> {
  // The buffer and the written pages that wait for the disk must fit into memory.
  const bytes =
    Math.floor(Math.min(quick ? 1e9 : 1e10, freemem() * 0.6) / (4096 * ROW_BYTES)) *
    4096 *
    ROW_BYTES;
  await inFolder(async (folder) => {
    for (const doing of ['save', 'restore'] as const) {
      const entry = fileURLToPath(new URL('./checkpoint-memory.js', import.meta.url));
      const child = spawnSync(
        process.execPath,
        [entry, doing, folder, String(bytes / ROW_BYTES), String(FLOATS)],
        {
          encoding: 'utf8',
          stdio: ['ignore', 'pipe', 'inherit'],
        },
      );
      if (child.status !== 0)
        throw new Error(`${doing} of ${bytes} bytes ended with ${child.status ?? child.signal}`);
      const { beyond, seconds } = JSON.parse(child.stdout) as { beyond: number; seconds: number };
      const what = `${(bytes / 1e9).toFixed(1)} GB of rows of ${ROW_BYTES} B, ${doing}`;
      report({ case: what, metric: 'most memory beyond', value: beyond / MIB, unit: 'MiB' });
      report({ case: what, metric: 'time', value: seconds, unit: 's' });
    }
  });
}

export const run: Benchmark = async (report, { device, quick }) => {
  await reportSpeed(report, quick);
  await reportMemory(report, quick);
  if (availableParallelism() > 1)
    await inFolder((folder) => reportPipelines(report, { device, quick, folder }));
};
