/**
 * Tests that the kernel table of TypeScript and the page of kernels agree with the native kernels.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { kernels } from '../../src/device/kernels.ts';
import { nativeKernels } from '../../src/device/native.ts';
import { root } from '../types/rig.ts';

describe('the kernel table', () => {
  const known = nativeKernels()
    .kernels()
    .filter(({ name }) => !/^halo\d+$/.test(name));

  it('lists every native kernel with its argument counts and its written tensors', () => {
    const table = Object.entries(kernels).map(([name, { tensors, wholes, reals, writes }]) => {
      return {
        name,
        tensors: tensors.length,
        wholes: wholes.length,
        reals: reals.length,
        writes: 2 ** writes - 1,
      };
    });
    const counts = known.map(({ inPlace: _, ...counted }) => counted);
    const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
    expect(table.sort(byName)).to.deep.equal(counts.sort(byName));
  });

  it('matches the argument counts in docs/reference/kernels.md', () => {
    const page = readFileSync(join(root, 'docs/reference/kernels.md'), 'utf8');
    const rows = new Map(
      [...page.matchAll(/^\| `(\w+)` \|([^|]*)\|([^|]*)\|([^|]*)\|/gm)].map(
        ([, name = '', ...lists]) => {
          const counts = lists.map(
            (list) => list.replaceAll(/\([^)]*\)|\[[^\]]*\]/g, '').match(/[^,\s][^,]*/g)?.length,
          );
          return [name, counts.map((count) => count ?? 0)] as const;
        },
      ),
    );
    for (const { name, tensors, wholes, reals } of known)
      if (!['fail', 'spin', 'latch'].includes(name))
        expect(rows.get(name), name).to.deep.equal([tensors, wholes, reals]);
  });

  it('matches the written tensors and the in-place inputs in docs/reference/kernels.md', () => {
    const page = readFileSync(join(root, 'docs/reference/kernels.md'), 'utf8');
    const rows = new Map(
      [...page.matchAll(/^\| `(\w+)` \|([^|]*)\|/gm)].map(([, name = '', list = '']) => [
        name,
        list,
      ]),
    );
    for (const { name, writes, inPlace } of known) {
      if (['fail', 'spin', 'latch'].includes(name)) continue;
      const tensors = (rows.get(name) as string)
        .replaceAll(/\[[^\]]*\]/g, '')
        .split(/,(?![^(]*\))/);
      const output = /\w+/.exec(tensors[0] as string)?.[0];
      const bits = (of: (tensor: string) => boolean) =>
        tensors.reduce((sum, each, i) => sum + (of(each) ? 2 ** i : 0), 0);
      expect(
        [bits((each) => each.includes('**')), bits((each) => each.includes(`= ${output})`))],
        name,
      ).to.deep.equal([writes, inPlace]);
    }
  });
});
