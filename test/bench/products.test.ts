/** The limits of own products, as the benchmark of products finds and writes them. */
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { limitsOf, type Measured, written } from '../../bench/products.ts';

const file = new URL('../../../native/device/core/product_limits.hpp', import.meta.url);

describe('the benchmark of products', () => {
  const layer = (multiplyAdds: number, terms: number, own: number, library: number): Measured => ({
    ...{ multiplyAdds, terms, own, library },
  });

  it('finds limits for which the layers take the least time', () => {
    const measured = [
      layer(1000, 4, 1, 5),
      layer(2000, 600, 9, 5), // a long sum, although the product is small
      layer(50_000, 98, 40, 20), // a large product of short sums
      layer(4000, 120, 4, 5),
      layer(8000, 120, 5.1, 5), // hardly slower than the library
      layer(16_000, 128, 5, 6),
    ];
    expect(limitsOf(measured)).to.deep.equal({ multiplyAdds: 16_000, terms: 128 });
    expect(limitsOf([layer(1000, 4, 2, 1)])).to.deep.equal({ multiplyAdds: 0, terms: 0 });
    expect(limitsOf([])).to.deep.equal({ multiplyAdds: 0, terms: 0 });
  });

  it('writes the limits and their source into product_limits.hpp, and nothing else', () => {
    const text = readFileSync(file, 'utf8');
    const changed = written(text, { multiplyAdds: 5, terms: 6 }, 'a card, 2026-11-30');
    expect(changed).to.match(
      /\n\/\/ a card, 2026-11-30\nconstexpr ProductLimits measured_limits\{5, 6\};\n/,
    );
    const found = /\/\/ (.*)\nconstexpr ProductLimits measured_limits\{(\d+), (\d+)\};/.exec(text)!;
    const back = { multiplyAdds: Number(found[2]), terms: Number(found[3]) };
    expect(written(changed, back, found[1]!)).to.equal(text);
    expect(() => written('', back, '')).to.throw('product_limits.hpp has no measured_limits');
  });
});
