/** Tests matrix products by cuBLAS on the software driver of CUDA. */
import { expect } from 'chai';
import { describeAll } from '../rig/setting.ts';
import { buildSoftwareDriver } from './build.ts';
import { type Mode, modes, need, run } from './software.ts';

const { cuda13 } = modes;

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
    cublas = { HOTSLOT_CUBLAS: buildSoftwareDriver('cublas') };
  });

  it('gemm_batched runs on cuBLAS, also as the first product of its kind in a capture', async () => {
    const own = await probe(cuda13, ['kinds']);
    expect(own.products).to.equal("Hotslot's own kernel");
    const { products, ...got } = await probe(cuda13, ['kinds'], cublas);
    expect(products).to.match(/^cuBLAS 13\.1 /);
    expect(got.violations).to.equal(0);
    expect(got.small).to.deep.equal([7, 10, 15, 22, 23, 34, 31, 46]);
    for (const kind of ['gemm', 'gemm_batched', 'shared'])
      expect(got.results[`${kind} captured`], kind).to.deep.equal(got.results[kind]);
    // The software cuBLAS computes float32 products by the kernels that the driver runs, too.
    expect(got.results).to.deep.equal(own.results);
  });

  it('a batch of more products than cuBLAS takes in one call is complete', async () => {
    expect(await probe(cuda13, ['many'], cublas)).to.equal(-1);
  });

  it("gemm_batched runs on Hotslot's own kernel if cuBLAS has no batches", async () => {
    const old = { HOTSLOT_CUBLAS: buildSoftwareDriver('cublas-old') };
    const unfit = { ...cublas, HOTSLOT_SOFTWARE_BLAS: 'unbatched' };
    for (const env of [old, unfit]) {
      const { products, results, violations } = await probe(cuda13, ['kinds'], env);
      expect(products).to.match(/^cuBLAS 13\.1 /);
      expect(violations).to.equal(0);
      expect(results.gemm_batched).to.have.length(120);
      expect(results['gemm_batched captured']).to.deep.equal(results.gemm_batched);
    }
  });
});
