/**
 * Files from outside: tensors in each format, a checkpoint's folder and kernel images. Each is read
 * by every function that reads such a file.
 */
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as formats from '../../src/entries/formats.ts';
import * as hotslot from '../../src/index.ts';
import { damaged, type Edit, edited, edits } from './edits.ts';
import type { Kind, Place } from './target.ts';
import { form, type Gen, one } from './values.ts';

const tensors = {
  a: { dtype: 'float32', shape: [3, 2], data: new Float32Array(6).fill(1) },
  b: { dtype: 'uint8', shape: [3], data: new Uint8Array(3).fill(2) },
} as const;

/** Returns the parts of a checkpoint that need no device. */
function partsOf() {
  const limiter = hotslot.RateLimiter.create({ samplesPerInsert: 1, minSize: 1, errorBuffer: 9 });
  const buffer = hotslot.ReplayBuffer.create({
    capacity: 8,
    fields: { a: { shape: [2] }, b: { shape: [], dtype: 'uint8' } },
    limiter,
  });
  return { buffer, limiter, mailbox: hotslot.WeightMailbox.create({ length: 4 }) };
}

export async function filesOn(device: string): Promise<Kind> {
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-fuzz-files-'));
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  const samples: Record<string, Uint8Array> = {
    npy: formats.encodeNpy(tensors.a),
    safetensors: formats.encodeSafetensors(tensors, { note: 'x' }),
    onnx: formats.encodeOnnx(
      new (await import('../../src/entries/learner.ts')).MlpPolicy(
        { sizes: [2, 2] },
        new Float32Array(6),
      ),
    ),
    source: Buffer.from('gk_kernel(k, gk_real_out y) { GK_EACH(i, n) y[i] = 1; }'),
  };
  const npz = join(folder, 'sample.npz');
  await formats.writeNpz(npz, tensors);
  samples.npz = readFileSync(npz);
  const parts = partsOf();
  parts.buffer.add({ a: new Float32Array(6), b: new Uint8Array(3) });
  parts.mailbox.write(new Float32Array(4));
  const saved = join(folder, 'saved');
  const checkpoint = await hotslot.Checkpoint.open(saved, {
    ...parts,
    extra: () => ({ note: [1, 'x'] }),
  });
  await checkpoint.save();
  await checkpoint.close();
  const names = readdirSync(saved, { recursive: true, encoding: 'utf8' }).filter((name) =>
    statSync(join(saved, name)).isFile(),
  );
  for (const name of names) samples[`checkpoint ${name}`] = readFileSync(join(saved, name));

  /** Returns a copy of the saved folder in which one file is damaged. */
  const holed = (name: string, edits: readonly Edit[]): string => {
    const to = join(folder, 'holed');
    rmSync(to, { recursive: true, force: true });
    cpSync(saved, to, { recursive: true });
    writeFileSync(join(to, name), edited(samples[`checkpoint ${name}`] as Uint8Array, edits));
    return to;
  };
  const file = (name: string, bytes: Uint8Array): string => {
    const path = join(folder, name);
    writeFileSync(path, bytes);
    return path;
  };
  const folders = form(
    'holed($, $)',
    one(...names.map((name) => JSON.stringify(name))),
    edits(200),
  );
  const call =
    (text: string, ...gens: readonly Gen[]): Kind['draw'] =>
    (random) => ({ form: text, values: gens.map((gen) => gen(random)) });
  const any = Object.keys(samples).filter((name) => !name.startsWith('checkpoint'));
  const npzFile = form("file('x.npz', $)", damaged(['npz', 'npz', 'npz', 'npy'], 300));
  const calls: Kind['draw'][] = [
    call('formats.decodeNpy($)', damaged(['npy', 'npy', 'npy', ...any])),
    call(
      'formats.decodeSafetensors($)',
      damaged(['safetensors', 'safetensors', 'safetensors', ...any]),
    ),
    call(
      'formats.readSafetensors($)',
      form("file('x.safetensors', $)", damaged(['safetensors', ...any])),
    ),
    call('formats.readNpz($)', npzFile),
    call('w.buffer.load($)', npzFile),
    call('hotslot.Checkpoint.inspect($)', folders),
    call(
      'hotslot.Checkpoint.restore($, { buffer: w.buffer, limiter: w.limiter, mailbox: w.mailbox })',
      folders,
    ),
    call(
      'w.device.loadKernels({ images: { host: $, cuda: $, rocm: $, xpu: $ }, kernels: { k: { tensors: $ } } })',
      ...[1, 2, 3, 4].map(() => damaged(any)),
      one("['float32']", "['uint8']"),
    ),
  ];
  const rare = calls.length - 1;
  return {
    draw: (random) =>
      (calls[random.below(40) === 0 ? rare : random.below(rare)] as Kind['draw'])(random),
    open: () => open(device, { samples, edited, holed, file, formats, hotslot }),
    inOnePlace: 500,
    patience: 5000,
  };
}

async function open(device: string, names: Readonly<Record<string, unknown>>): Promise<Place> {
  const parts = partsOf();
  const opened = hotslot.openDevice(device);
  const look = () =>
    JSON.stringify([
      parts.buffer.ptr,
      parts.buffer.size,
      parts.limiter.inserts,
      parts.limiter.samples,
      parts.mailbox.published,
      parts.mailbox.begun,
    ]);
  let seen = look();
  return {
    scope: { ...names, w: { ...parts, device: opened } },
    keep: () => {
      seen = look();
    },
    differs: () => (look() === seen ? null : `the parts were ${seen} and are ${look()}`),
    others: (_, text) => /^ENOENT/.test(text),
    close: async () => {
      parts.buffer.close();
      opened.close();
    },
  };
}
