/** Tests the offsets of fields in a packed row, and which schemas are rejected. */
import { expect } from 'chai';
import type { FieldSpec } from '../../src/store/rows/fields.ts';
import { offPolicyLayout, schemaLayout } from '../../src/store/rows/pack-layout.ts';

describe('offPolicyLayout() and schemaLayout()', () => {
  it('offPolicyLayout() packs fields side by side in the order of UniLab', () => {
    const layout = offPolicyLayout({ obsDim: 3, actionDim: 2 });
    expect(Object.keys(layout.fields)).to.deep.equal([
      'obs',
      'next_obs',
      'actions',
      'rewards',
      'dones',
      'truncated',
    ]);
    expect(Object.values(layout.fields).map((field) => field.offset)).to.deep.equal([
      0, 12, 24, 32, 36, 40,
    ]);
    expect(Object.values(layout.fields).map((field) => field.bytes)).to.deep.equal([
      12, 12, 8, 4, 4, 4,
    ]);
    expect(layout.rowBytes).to.equal(44);
  });

  it('offPolicyLayout() puts the critic fields last if criticDim is above 0', () => {
    const layout = offPolicyLayout({ obsDim: 3, actionDim: 2, criticDim: 5 });
    expect(Object.keys(layout.fields).slice(6)).to.deep.equal(['critic', 'next_critic']);
    expect(layout.rowBytes).to.equal(44 + 40);
    expect(offPolicyLayout({ obsDim: 3, actionDim: 2, criticDim: 0 }).rowBytes).to.equal(44);
  });

  it('offPolicyLayout() gives fields the keys of add(), such as nextObs', () => {
    const { fields } = offPolicyLayout({ obsDim: 1, actionDim: 1, criticDim: 1 });
    expect(fields.next_obs?.key).to.equal('nextObs');
    expect(fields.next_critic?.key).to.equal('nextCritic');
    expect(fields.obs?.key).to.equal('obs');
    expect(fields.rewards?.shape).to.deep.equal([]);
  });

  it('schemaLayout() aligns fields to their item size, and pads rows to the largest item size', () => {
    const { fields, rowBytes } = schemaLayout({
      flag: { shape: [], dtype: 'uint8' },
      pose: { shape: [2, 3] },
      step: { shape: [], dtype: 'int64' },
      kind: { shape: [3], dtype: 'uint16' },
    });
    expect(fields.flag).to.include({ offset: 0, bytes: 1, dtype: 'uint8', key: 'flag' });
    expect(fields.pose).to.include({ offset: 4, bytes: 24, dtype: 'float32' });
    expect(fields.step).to.include({ offset: 32, bytes: 8 });
    expect(fields.kind).to.include({ offset: 40, bytes: 6 });
    expect(rowBytes).to.equal(48);
  });

  it('schemaLayout() returns a frozen layout', () => {
    const layout = schemaLayout({ x: { shape: [2] } });
    expect(
      Object.isFrozen(layout) && Object.isFrozen(layout.fields) && Object.isFrozen(layout.fields.x),
    ).to.equal(true);
  });

  it('both functions throw for dimensions that are not positive whole numbers', () => {
    for (const bad of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(() => offPolicyLayout({ obsDim: bad, actionDim: 1 }))
        .to.throw(RangeError, `obsDim must be`)
        .with.property('message')
        .that.includes(String(bad));
      expect(() => offPolicyLayout({ obsDim: 1, actionDim: bad })).to.throw(
        RangeError,
        'actionDim',
      );
      expect(() => schemaLayout({ x: { shape: [2, bad] } })).to.throw(
        RangeError,
        'fields.x.shape[1]',
      );
    }
    expect(() => offPolicyLayout({ obsDim: 1, actionDim: 1, criticDim: -1 })).to.throw(
      RangeError,
      'criticDim',
    );
    expect(() => offPolicyLayout({ obsDim: '4' as unknown as number, actionDim: 1 })).to.throw(
      TypeError,
      'obsDim',
    );
  });

  it('schemaLayout() throws for an empty or invalid schema', () => {
    expect(() => schemaLayout({})).to.throw(RangeError, 'at least one field');
    for (const bad of [null, 3, []]) {
      expect(() => schemaLayout(bad as unknown as Record<string, FieldSpec>)).to.throw(
        TypeError,
        'fields must be an object',
      );
    }
    expect(() => schemaLayout({ x: 4 as unknown as FieldSpec })).to.throw(
      TypeError,
      'fields.x must be',
    );
    expect(() => schemaLayout({ x: { shape: 4 as unknown as number[] } })).to.throw(
      TypeError,
      'fields.x must be',
    );
    const dtype = 'complex64' as unknown as 'float32';
    expect(() => schemaLayout({ x: { shape: [1], dtype } })).to.throw(
      TypeError,
      "unknown dtype 'complex64'",
    );
  });

  it('schemaLayout() throws for rows that are too long', () => {
    expect(() => schemaLayout({ x: { shape: [2 ** 20, 2 ** 10] } })).to.throw(RangeError, 'bytes');
  });
});
