/**
 * Tests matrix products by cuBLAS on the software driver of CUDA, in float32 and in TF32. The
 * software cuBLAS rounds operands to TF32 if its math mode says so.
 */
import { expect } from 'chai';
import { describeAll, itLong } from '../rig/setting.ts';
import { buildSoftwareDriver } from './build.ts';
import { type Mode, modes, need, run } from './software.ts';

const { cuda13, hip, ze } = modes;
const none = 'TF32 products need an NVIDIA GPU of compute capability 8.0 or newer, and cuBLAS';
const refusal = (device: string, why: string) => [
  'ERR_HOTSLOT_UNAVAILABLE',
  `products: ${device} cannot multiply in TF32: ${why}; use 'float32'`,
];

async function probe(mode: Mode, args: readonly string[], more: Record<string, string> = {}) {
  const { stdout, stderr, status } = await run(
    mode,
    ['dist/test/drivers/products-probe.js', ...args],
    more,
  );
  expect(status, stderr).to.equal(0);
  return JSON.parse(stdout);
}

describeAll('matrix products by cuBLAS', () => {
  let cublas: Record<string, string>;
  before(function () {
    need(this, cuda13);
    cublas = { HOTSLOT_CUBLAS: buildSoftwareDriver('cublas'), HOTSLOT_OWN_PRODUCTS: 'none' };
  });

  it('gemm_batched runs on cuBLAS, also as the first product of its kind in a capture', async () => {
    const own = await probe(cuda13, ['kinds']);
    expect(own.products).to.equal("Hotslot's own kernel");
    const { products, ...got } = await probe(cuda13, ['kinds'], cublas);
    expect(products).to.match(/^cuBLAS 13\.1 /);
    expect(got.violations).to.equal(0);
    expect(got.small).to.deep.equal([10, 14, 14, 20, 26, 38, 30, 44]);
    for (const kind of ['gemm', 'gemm_batched', 'shared'])
      expect(got.results[`${kind} captured`], kind).to.deep.equal(got.results[kind]);
    // The software cuBLAS computes float32 products by the kernels that the driver runs, too.
    expect(got.results).to.deep.equal(own.results);
  });

  it('an update has few nodes on a card with cuBLAS', async () => {
    const { HOTSLOT_CUBLAS } = cublas as { HOTSLOT_CUBLAS: string };
    // Nodes of a captured update, and launches, depth and KiB of its plan. Version 0.3.0 had 34, 147 and
    // 184 nodes on an H100, for double DQN, SAC and FastSAC.
    expect(await probe(cuda13, ['nodes'], { HOTSLOT_CUBLAS })).to.deep.equal({
      'double DQN': [14, 15, 8, 327],
      'double DQN with clipping': [15, 15, 8, 327],
      'dueling DQN': [41, 22, 38, 212],
      C51: [20, 21, 13, 435],
      'QR-DQN': [32, 33, 23, 4271],
      'discrete SAC': [58, 62, 40, 419],
      SAC: [45, 49, 39, 2092],
      TD3: [60, 41, 30, 1804],
      TQC: [60, 62, 34, 9529],
      IQL: [49, 52, 16, 2826],
      CQL: [96, 98, 55, 50273],
      FastSAC: [93, 97, 85, 57705],
    });
  });

  it('the table of a plan names the products of cuBLAS, their precision and why', async () => {
    const { HOTSLOT_CUBLAS } = cublas as { HOTSLOT_CUBLAS: string };
    const lines: string[] = await probe(cuda13, ['table'], { HOTSLOT_CUBLAS });
    const [, , head, ...rows] = lines.map((line) => line.split(/ {2,}/));
    const of = (name: string) => rows.map((row) => row[head!.indexOf(name)]);
    expect(of('kernel').slice(0, 3)).to.deep.equal([...['linear_act', 'gemm', 'bias_act_batched']]);
    expect(of('op')[1]).to.equal('network net 2: linear(2048, 64)');
    expect(of('apart')[1]).to.equal(
      'cuBLAS multiplies 8×64×2048 in TF32: sums of more than 512 terms',
    );
  });

  it('cuBLAS computes products above the limits, and the own kernel the others', async () => {
    const { HOTSLOT_CUBLAS } = cublas as { HOTSLOT_CUBLAS: string };
    expect(await probe(cuda13, ['routed'], { HOTSLOT_CUBLAS })).to.deep.equal({
      '4×4×512': 'float32',
      '4×4×513': 'tf32',
      '256×256×256': 'float32',
      '257×256×256': 'tf32',
    });
  });

  it('a batch of more products than cuBLAS takes in one call is complete', async () => {
    expect(await probe(cuda13, ['many'], cublas)).to.equal(-1);
  });

  it("gemm_batched runs on Hotslot's own kernel if cuBLAS has no batches", async () => {
    const old = { HOTSLOT_CUBLAS: buildSoftwareDriver('cublas-old'), HOTSLOT_OWN_PRODUCTS: 'none' };
    const unfit = { ...cublas, HOTSLOT_SOFTWARE_BLAS: 'unbatched' };
    for (const env of [old, unfit]) {
      const { products, results, violations } = await probe(cuda13, ['kinds'], env);
      expect(products).to.match(/^cuBLAS 13\.1 /);
      expect(violations).to.equal(0);
      expect(results.gemm_batched).to.have.length(120);
      expect(results['gemm_batched captured']).to.deep.equal(results.gemm_batched);
    }
  });

  const open = (
    opens: readonly [string, object?][],
    more: Record<string, string> = cublas,
    mode: Mode = cuda13,
  ) => probe(mode, ['open', JSON.stringify(opens)], more);
  const asTf32 = (name: string): [string, object] => [name, { products: 'tf32' }];

  it('products are within the bound of float32 or of rounded operands, as the device was opened', async () => {
    const { found, violations } = await probe(cuda13, ['precisions'], cublas);
    const precisions = ['float32', 'tf32', 'float32', 'tf32', 'float32'];
    expect(found.map(({ told }: { told: string }) => told)).to.deep.equal(precisions);
    for (const [i, precision] of precisions.entries()) {
      expect(found[i].is, `opening ${i}`).to.deep.equal(Array(6).fill(precision));
      expect(found[i].matrixProducts).to.match(precision === 'tf32' ? /^cuBLAS .*, TF32$/ : /\)$/);
    }
    // No product of a capture was the first of its kind.
    expect(violations).to.equal(0);
  });

  it('streams and graphs keep their precision when the device is opened with another one', async () => {
    const { results, stale, inCapture, lentAnother } = await probe(cuda13, ['kept'], cublas);
    expect(results).to.deep.equal({
      'stream of float32': 'float32',
      'stream of TF32': 'tf32',
      'graph of TF32': 'tf32',
      'new stream': 'float32',
    });
    expect(stale[0]).to.equal('ERR_HOTSLOT_STALE_HANDLE');
    expect(inCapture).to.deep.equal([
      'ERR_HOTSLOT_STATE_CAPTURE',
      "products: 'tf32' needs another default stream of cuda:0, which cannot be created inside a capture; open the device before the capture begins",
    ]);
    expect(lentAnother).to.equal(true);
  });

  it('openDevice() without products gets the precision in use, and throws for another one', async () => {
    const busy = (now: string, other: string) => [
      'ERR_HOTSLOT_STATE_BUSY',
      `products: cuda:0 is open in this process with '${now}', got '${other}'; close it everywhere first, or omit products`,
    ];
    const tf32 = asTf32('cuda:0');
    const float32: [string, object] = ['cuda:0', { products: 'float32' }];
    expect(await open([tf32, ['cuda:0'], tf32, float32])).to.deep.equal([
      ...['tf32', 'tf32', 'tf32'],
      busy('tf32', 'float32'),
    ]);
    expect(await open([['cuda:0'], tf32, float32])).to.deep.equal([
      'float32',
      busy('float32', 'tf32'),
      'float32',
    ]);
    expect(await probe(cuda13, ['thread'], cublas)).to.deep.equal({
      here: 'tf32',
      there: ['tf32', 'tf32', busy('tf32', 'float32')],
    });
    expect(await probe(cuda13, ['attached'], cublas)).to.deep.equal([
      'float32',
      busy('float32', 'tf32'),
    ]);
  });

  it('openDevice() throws for an unknown precision, and for devices without TF32', async () => {
    const wrong = (got: string) => [
      'ERR_HOTSLOT_ARGUMENT',
      `products must be 'float32' or 'tf32', got ${got}`,
    ];
    const opens: [string, object][] = [
      ['cuda:0', { products: 'bf16' }],
      ['cuda:0', { products: null }],
      ['cuda:0', { product: 'tf32' }],
      ['cuda:0', { products: undefined }],
      asTf32('host:0'),
      asTf32('cpu'),
    ];
    expect(await open(opens)).to.deep.equal([
      wrong("'bf16'"),
      wrong('null'),
      ['ERR_HOTSLOT_ARGUMENT', "openDevice: unknown option 'product'; it takes products"],
      'float32',
      refusal('host:0', none),
      refusal('host:0', none),
    ]);
    const both: [string, object?][] = [asTf32('cuda:0'), ['cuda:0']];
    const refused = async (why: RegExp, more: Record<string, string>) => {
      const [first, second] = await open(both, { ...cublas, ...more });
      const [code, text] = first;
      expect([code, second]).to.deep.equal(['ERR_HOTSLOT_UNAVAILABLE', 'float32']);
      expect(text).to.match(/^products: cuda:0 cannot multiply in TF32: .*; use 'float32'$/);
      expect(text).to.match(why);
    };
    await refused(/: its compute capability is 7\.5, and TF32 needs 8\.0 or newer;/, {
      HOTSLOT_SOFTWARE_CUDA: '13.0,cc=7.5',
    });
    await refused(
      /: only cuBLAS has TF32 products, and its products run on Hotslot's own kernel \(HOTSLOT_CUBLAS=none\);/,
      { HOTSLOT_CUBLAS: 'none' },
    );
    await refused(/: cuBLAS 13\.1 \(.*libcublas\.so\.11\) has no cublasSetMathMode;/, {
      HOTSLOT_CUBLAS: buildSoftwareDriver('cublas-old'),
      HOTSLOT_OWN_PRODUCTS: 'none',
    });
    for (const how of ['untf32', 'untf32-batched'])
      await refused(
        /: cuBLAS 13\.1 \(.*\) does not multiply in TF32 here: its products are wrong;/,
        { HOTSLOT_SOFTWARE_BLAS: how },
      );
  });

  for (const mode of [hip, ze])
    itLong(
      `${mode.name}: openDevice() throws for TF32, and opens the device without it`,
      async function () {
        need(this, mode);
        expect(await open([asTf32(mode.device), [mode.device]], {}, mode)).to.deep.equal([
          refusal(mode.device, none),
          'float32',
        ]);
      },
    );

  it('a learner in TF32 moves slightly differently, says so in its settings, and replays its graph', async () => {
    const { float32, tf32, graph } = await probe(cuda13, ['updates'], cublas);
    expect(float32.settings).not.to.have.property('products');
    expect(tf32.settings).to.deep.equal({ ...float32.settings, products: 'tf32' });
    const off = (float32.parameters as number[]).map((x, i) => Math.abs(x - tf32.parameters[i]));
    expect(Math.max(...off)).to.be.within(1e-8, 1e-2);
    expect(graph.parameters).to.deep.equal(tf32.parameters);
  });

  const differs = (here: string, there: string) =>
    `products is '${here}' here, and '${there}' in the checkpoint`;
  it('restore() rejects a learner in another precision, and takes checkpoints without one as float32', async () => {
    const texts: Record<string, string | null> = await probe(cuda13, ['checkpoints'], cublas);
    const refused = (name: string, here: string, there: string, more = '') =>
      `the checkpoint in '/${name}' does not fit these parts: ${differs(here, there)}: open the learner's device with products: '${there}'${more}`;
    const gamma = 'learner.settings.gamma is 0.9 here, 0.5 in the checkpoint';
    expect(texts).to.deep.equal({
      'float32 to float32': null,
      'float32 to tf32': refused('float32', 'tf32', 'float32'),
      'tf32 to float32': refused('tf32', 'float32', 'tf32'),
      'tf32 to tf32': null,
      'other to float32': refused('other', 'float32', 'tf32', `; ${gamma}`),
      'other to tf32': `the checkpoint in '/other' does not fit these parts: ${gamma}`,
      'old to float32': null,
      'old to tf32': refused('old', 'tf32', 'float32'),
    });
  });

  it('train() takes products, keeps the saved one, and rejects another one, also without settings', async () => {
    const refused = (name: string, here: string, there: string) =>
      `${differs(here, there)} of '/${name}'; open the device with products: '${there}', or name another folder`;
    expect(await probe(cuda13, ['trainings'], cublas)).to.deep.equal({
      ...{ first: 'tf32', threads: 'tf32', omitted: 'tf32', firstInFloat32: 'float32' },
      float32: refused('tf32', 'float32', 'tf32'),
      tf32: refused('float32', 'tf32', 'float32'),
      ...{ own: 'tf32', ownOmitted: 'tf32', ownInFloat32: refused('own', 'float32', 'tf32') },
      wrong: "products must be 'float32' or 'tf32', got 'bf16'",
      onHost: refusal('host:0', none)[1],
    });
    expect(await probe(cuda13, ['ownDevice'], cublas)).to.equal(
      "products: this learner is on its own device, which has 'float32'; omit the option, or pass a function that makes the learner",
    );
  });

  it('npm run train takes --products', async () => {
    const limits = ['--env', 'CartPole', '--steps', '1100', '--json', '--quiet', '--deterministic'];
    const trained = (products: string, more = cublas) =>
      run(
        cuda13,
        ['dist/examples/train/main.js', '--device', 'cuda:0', '--products', products, ...limits],
        more,
      );
    const weights: string[] = [];
    for (const products of ['tf32', 'tf32', 'float32']) {
      const { stdout, stderr, status } = await trained(products);
      expect(status, stderr).to.equal(1);
      weights.push(JSON.parse(stdout).weights);
    }
    expect(weights[1]).to.equal(weights[0]);
    expect(weights[2]).not.to.equal(weights[0]);
    const refused = await trained('tf32', { HOTSLOT_CUBLAS: 'none' });
    expect(refused.status).to.equal(2);
    expect(refused.stderr).to.include('products: cuda:0 cannot multiply in TF32: ');
  });
});
