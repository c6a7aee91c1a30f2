/**
 * Runs every row of the tables of docs/how-to/from-pytorch.md. The arrays, the learner and its update
 * of the examples come from the page's snippets.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { firstNonFinite, type Network } from '../../src/entries/learner.ts';
import * as traces from '../../src/entries/trace.ts';
import { type Device, openDevice, type Tensor } from '../../src/index.ts';
import { TESTED } from '../rig/tested-device.ts';
import { warningsOf } from '../rig/warnings.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const page = readFileSync(join(root, 'docs/how-to/from-pytorch.md'), 'utf8');

/** The tables: each row's second cell, which is code, and its third. */
const tables = [...page.matchAll(/^\| PyTorch .*\n\|[-|]+\n((?:\|.*\n)+)/gm)].map(([, rows = '']) =>
  rows
    .trim()
    .split('\n')
    .map((row) => {
      const [, code = '', third = ''] = /^\| .* \| `([^`]+)` \|(?: (.*) \|)?$/.exec(row) ?? [];
      return { row, code, third };
    }),
);
const [arrays = [], losses = [], descriptions = [], updates = [], members = [], absent = []] =
  tables;

const snippets = [...page.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code = '']) => code);
const declared = [...snippets[0]!.matchAll(/^ {2}const \w+ = .*;$/gm)].map(([line]) => line);
const baseCode = snippets.find((code) => code.startsWith('// base.mjs'))!;

/** The parts of a batch that a field describes. */
type Field =
  | number[]
  | 'index'
  | { shape?: number[]; dtype?: 'uint8'; mask?: number; gamma?: number };
interface Base {
  rows: number;
  batch: Record<string, Field>;
  networks: { q: Network };
  seed?: number;
  update: object;
}

const names = Object.keys(traces);
/** Calls code that sees the functions of hotslot/trace and the named values. */
const evaluate = (code: string, values: Readonly<Record<string, unknown>> = {}): unknown => {
  const all = { ...traces, ...values };
  return new Function(...Object.keys(all), code)(...Object.values(all));
};

describe('rows of docs/how-to/from-pytorch.md', () => {
  let device: Device;
  let folder: string;
  const open: { close(): void }[] = [];
  const keep = <T extends { close(): void }>(made: T): T => {
    open.push(made);
    return made;
  };
  before(() => {
    device = openDevice(TESTED);
    folder = mkdtempSync(join(tmpdir(), 'hotslot-from-pytorch-'));
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(root, join(folder, 'node_modules/hotslot'));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));
  afterEach(() => {
    for (const made of open.splice(0).reverse()) made.close();
  });

  it('are at least 60, in six tables, each with code', () => {
    expect(tables.length).to.equal(6);
    expect(tables.flat().length).to.be.at.least(60);
    expect(tables.flat().filter(({ code }) => code === '')).to.deep.equal([]);
  });

  const resultOf = async (code: string): Promise<number[]> => {
    const made = keep(
      traces.trace(
        device,
        {},
        () => evaluate(`${declared.join('\n')}\nreturn ${code};`) as traces.Expression,
      ),
    );
    made.run(device.currentStream, {} as never);
    return [...(await (made.outputs as unknown as Tensor<'float32'>).toArray())];
  };

  for (const { code, third } of [...arrays, ...losses])
    it(`${code} gives ${third}`, async () => {
      const values = await resultOf(code);
      if (third === 'random') {
        expect(values.every(Number.isFinite), `${values}`).to.equal(true);
        return;
      }
      const wanted = third.split(' ').map(Number);
      expect(values.length).to.equal(wanted.length);
      for (const [i, value] of values.entries()) expect(value).to.be.closeTo(wanted[i]!, 6e-5);
    });

  for (const { code } of absent)
    it(`${code} runs`, async () => {
      expect((await resultOf(code)).every(Number.isFinite)).to.equal(true);
    });

  let modules = 0;
  const importBase = async (text: string): Promise<Base> => {
    const file = join(folder, `${modules++}.mjs`);
    writeFileSync(file, text);
    return ((await import(pathToFileURL(file).href)) as { base: Base }).base;
  };

  /** Returns a tensor of ones for a field, or the tensors from which its factor is computed. */
  const tensorsOf = (rows: number, name: string, field: Field): [string, Tensor][] => {
    const ones = (row: readonly number[], dtype?: 'uint8') => {
      const shape = [rows, ...row];
      const list = { length: shape.reduce((product, n) => product * n) };
      return dtype === 'uint8'
        ? keep(device.allocate({ shape, dtype })).write(Uint8Array.from(list, () => 1))
        : keep(device.allocate({ shape })).write(Float32Array.from(list, () => 1));
    };
    if (Array.isArray(field)) return [[name, ones(field)]];
    if (field === 'index') return [[name, ones([])]];
    if (field.gamma !== undefined) return [['terminated', ones([])]];
    if (field.mask !== undefined) return [[name, ones([field.mask])]];
    return [[name, ones(field.shape ?? [], field.dtype)]];
  };

  /** Makes a learner, and does an update. */
  const make = async (description: Base) => {
    let made: Awaited<ReturnType<typeof makeOne>> | undefined;
    const heard = await warningsOf('LearnerWarning', async () => {
      made = await makeOne(description);
    });
    // Many rows leave out a loss or the weights of the example.
    for (const text of heard)
      expect(text).to.match(
        /no phase minimizes|update does not use|importance weights|masks of legal/,
      );
    return made!;
  };
  const makeOne = async (description: Base) => {
    const { rows, batch: fields } = description;
    const learner = keep(traces.learner(device, description as never));
    await learner.ready;
    const batch = Object.fromEntries(
      Object.entries(fields).flatMap(([name, field]) => tensorsOf(rows, name, field)),
    );
    const out = keep(device.allocate({ shape: [Math.max(learner.scalars.length, 1)] }));
    learner.update(device.currentStream, batch, out);
    await device.currentStream.synchronize();
    for (const value of await learner.parameters.toArray())
      expect(Number.isFinite(value)).to.equal(true);
    return { learner, batch, out };
  };

  for (const { code } of descriptions)
    it(`a learner of base with ${code} updates`, async () => {
      const base = await importBase(baseCode);
      const more = evaluate(`return { ${code} };`, { q: base.networks.q }) as Partial<Base>;
      const [key] = Object.keys(more) as [keyof Base];
      const value =
        key === 'seed' ? more.seed : { ...(base[key] as object), ...(more[key] as object) };
      const { learner } = await make({ ...base, [key]: value });
      expect(learner.kind).to.equal('base');
    });

  for (const { code } of updates)
    it(`${code} runs in update()`, async () => {
      const last = /^ {4}return .*;$/m.exec(baseCode)![0];
      const own = /^import \{ (.*) \} from 'hotslot\/trace';$/m.exec(baseCode)![1]!.split(', ');
      const others = names.filter((name) => !own.includes(name) && code.includes(`${name}(`));
      const text = baseCode.replace(
        last,
        `    const row = (${code});
    if (Array.isArray(row) || row.minimize) return row;
    return { minimize: { q: loss, critics: other }, scalars: row.sum ? { row: row.sum() } : {} };`,
      );
      const imports = others.length > 0 ? `import { ${others} } from 'hotslot/trace';\n` : '';
      const { learner } = await make(await importBase(imports + text));
      expect(learner.kind).to.equal('base');
    });

  for (const { code } of members)
    it(`${code} runs`, async () => {
      const { learner, batch, out } = await make(await importBase(baseCode));
      const stream = device.currentStream;
      const obs = new Float32Array(4);
      const values = { learner, batch, out, stream, obs, device, firstNonFinite };
      await evaluate(`return (async () => ${code})();`, values);
    });
});
