/** Launches of the ops that have kernels of their own. */
import { MAX_ROW_ACTIONS } from '../../actor-critic/squashed-gaussian.ts';
import { uniformOf } from '../fused.ts';
import { type Shape, sizeOf } from '../shapes.ts';
import type { FusedName, Node, NodeOfKind } from '../tape.ts';
import type { Value } from './launches.ts';
import { flatView, type Lowering, rowsOf, whole } from './lowering.ts';

type LowerFused = (lowering: Lowering, node: NodeOfKind<'fused'>) => Value[];

/** Returns an input as rows, with the distance from one row to the next. */
function inputRows(lowering: Lowering, node: NodeOfKind<'fused'>, i: number) {
  const input = node.inputs[i] as Node;
  const columns = input.shape.length < 2 ? 1 : input.shape[1]!;
  return rowsOf(lowering, node as Node, lowering.value(input), input.shape, columns);
}
/** Returns an input of one number for each row. The distance is 0 if all rows share one number. */
function inputColumn(lowering: Lowering, node: NodeOfKind<'fused'>, i: number) {
  const input = node.inputs[i] as Node;
  const value = lowering.value(input);
  const shared = value.strides.every((step, d) => step === 0 || input.shape[d] === 1);
  return shared ? { value, distance: 0 } : inputRows(lowering, node, i);
}
/** Returns the number of rows of an input. The kernel repeats an input of fewer rows than its own. */
const rowsOfInput = (node: NodeOfKind<'fused'>, i: number): number => node.inputs[i]!.shape[0] ?? 1;
const dense = (lowering: Lowering, node: NodeOfKind<'fused'>, i: number): Value => {
  const input = node.inputs[i] as Node;
  return lowering.dense(node as Node, lowering.value(input), input.shape);
};
const run = (value: Value, shape: Shape) => flatView(value, 1, sizeOf(shape), sizeOf(shape));
const column = (value: Value, rows: number, distance: number) =>
  flatView(value, distance === 0 ? 1 : rows, 1, distance || 1);
/** Returns the values of two columns of rows of two numbers. */
const columnsOf = (terms: Value): Value[] =>
  [0, 1].map((offset) => ({ ...terms, offset, strides: [2] }));

/**
 * Returns the number by which the only op that reads a loss's slopes multiplies them, such as 1 / rows
 * for a mean, or 1. The loss's kernel multiplies by this number, so that op gets no launch.
 */
function slopeScale(lowering: Lowering, node: NodeOfKind<'fused'>, slopes: Value): number {
  const { nodes, of } = lowering.merged;
  // Phases of other periods have slopes of their own, which are not merged.
  const parts = nodes.filter(
    (each) => each.op === 'part' && each.attributes.index === 0 && of(each.inputs[0]!) === node,
  );
  const [part] = parts;
  const readers = (part && parts.length === 1 && lowering.readersOf(part)) || [];
  const [reader] = readers;
  if (readers.length !== 1 || reader?.op !== 'binary' || reader.attributes.f !== 'mul') return 1;
  const [a, b] = reader.inputs.map(of) as [Node, Node];
  const scale = uniformOf(a === part ? b : a);
  if (scale === null || !Number.isFinite(scale)) return 1;
  lowering.setResult(reader, slopes);
  return scale;
}

export const fusedLowerings: { readonly [Name in FusedName]: LowerFused } = {
  squashedGaussian(lowering, node) {
    const [, noise] = node.inputs as [Node, Node];
    const [rows, n] = noise.shape as [number, number];
    const { form, correction, low, high, meanLimit } = node.attributes.options;
    const [out, drawn, box] = [
      inputRows(lowering, node, 0),
      dense(lowering, node, 1),
      dense(lowering, node, 2),
    ];
    const [action, logProb] = [lowering.fresh([rows, n]), lowering.fresh([rows])];
    const apart = n > MAX_ROW_ACTIONS;
    const terms = apart
      ? flatView(lowering.fresh([rows, n]), rows, n, n)
      : flatView(logProb, rows, 1, 1);
    lowering.launch({
      kernel: apart ? 'squashed_gaussian' : 'squashed_gaussian_rows',
      views: [
        flatView(action, rows, n, n),
        terms,
        flatView(out.value, rows, 2 * n, out.distance),
        flatView(drawn, rows, n, n),
        run(box, [2, n]),
      ],
      writes: 2,
      wholes: [rows, n, n, whole(2, out.distance), form!, correction!],
      reals: [low!, high!, meanLimit!],
      node: node as Node,
    });
    if (apart)
      lowering.launch({
        kernel: 'reduce_rows',
        views: [flatView(logProb, rows, 1, 1), terms],
        writes: 1,
        wholes: [rows, n, 1, n, 0],
        reals: [1],
        node: node as Node,
      });
    return [action, logProb];
  },
  squashedGaussianSlope(lowering, node) {
    const [, noise] = node.inputs as [Node, Node];
    const [rows, n] = noise.shape as [number, number];
    const { form, correction, low, high, meanLimit, scale } = node.attributes.options;
    const [out, drawn, box, dAction, dLogProb] = [
      inputRows(lowering, node, 0),
      dense(lowering, node, 1),
      dense(lowering, node, 2),
      inputRows(lowering, node, 3),
      inputColumn(lowering, node, 4),
    ];
    const d = lowering.fresh([rows, 2 * n]);
    lowering.launch({
      kernel: 'squashed_gaussian_backward',
      views: [
        flatView(d, rows, 2 * n, 2 * n),
        flatView(out.value, rows, 2 * n, out.distance),
        flatView(drawn, rows, n, n),
        run(box, [2, n]),
        flatView(dAction.value, rows, n, dAction.distance),
        column(dLogProb.value, rows, dLogProb.distance),
      ],
      writes: 1,
      wholes: [
        rows,
        n,
        2 * n,
        whole(1, out.distance),
        whole(4, dAction.distance),
        whole(5, dLogProb.distance),
        form!,
        correction!,
      ],
      reals: [low!, high!, meanLimit!, scale!],
      node: node as Node,
    });
    return [d];
  },
  categoricalProject(lowering, node) {
    const [rows, atoms] = node.inputs[0]!.shape as [number, number];
    const { low, high } = node.attributes.options;
    const probs = dense(lowering, node, 0);
    const columns = [1, 2]
      .map((i) => inputRows(lowering, node, i))
      .concat(inputColumn(lowering, node, 3));
    const [projected, mean] = [lowering.fresh([rows, atoms]), lowering.fresh([rows])];
    const own = [1, 2, 3].map((i) => rowsOfInput(node, i));
    lowering.launch({
      kernel: 'categorical_project',
      views: [
        flatView(projected, rows, atoms, atoms),
        run(mean, [rows]),
        flatView(probs, rows, atoms, atoms),
        ...columns.map(({ value, distance }, i) => column(value, own[i]!, distance)),
      ],
      writes: 2,
      wholes: [rows, atoms, ...columns.map(({ distance }, i) => whole(i + 3, distance)), ...own],
      reals: [low!, high!],
      node: node as Node,
    });
    return [projected, mean];
  },
  categoricalLoss(lowering, node) {
    const [rows, atoms] = node.inputs[0]!.shape as [number, number];
    const { least, low, high } = node.attributes.options;
    const [logits, targets] = [inputRows(lowering, node, 0), dense(lowering, node, 1)];
    const weights = inputColumn(lowering, node, 2);
    const slopes = lowering.fresh([rows, atoms]);
    const scale = slopeScale(lowering, node, slopes);
    const [terms, errors] = [lowering.fresh([rows, 2]), lowering.fresh([rows])];
    const [targetRows, weightRows] = [rowsOfInput(node, 1), rowsOfInput(node, 2)];
    lowering.launch({
      kernel: 'categorical_loss',
      views: [
        flatView(slopes, rows, atoms, atoms),
        run(terms, [rows, 2]),
        column(errors, rows, 1),
        flatView(logits.value, rows, atoms, logits.distance),
        flatView(targets, targetRows, atoms, atoms),
        column(weights.value, weightRows, weights.distance),
      ],
      writes: 3,
      wholes: [
        rows,
        atoms,
        atoms,
        1,
        whole(3, logits.distance),
        whole(5, weights.distance),
        targetRows,
        weightRows,
      ],
      reals: [least!, scale, low!, high!],
      node: node as Node,
    });
    return [slopes, ...columnsOf(terms), errors];
  },
  categoricalMean(lowering, node) {
    const [rows, atoms] = node.inputs[0]!.shape as [number, number];
    const { low, high } = node.attributes.options;
    const logits = inputRows(lowering, node, 0);
    const mean = lowering.fresh([rows]);
    lowering.launch({
      kernel: 'categorical_mean',
      views: [column(mean, rows, 1), flatView(logits.value, rows, atoms, logits.distance)],
      writes: 1,
      wholes: [rows, atoms, 1, whole(1, logits.distance)],
      reals: [low!, high!],
      node: node as Node,
    });
    return [mean];
  },
  categoricalMeanSlope(lowering, node) {
    const [rows, atoms] = node.inputs[1]!.shape as [number, number];
    const { low, high } = node.attributes.options;
    const [above, logits] = [inputColumn(lowering, node, 0), inputRows(lowering, node, 1)];
    const mean = dense(lowering, node, 2);
    const d = lowering.fresh([rows, atoms]);
    lowering.launch({
      kernel: 'categorical_mean_backward',
      views: [
        flatView(d, rows, atoms, atoms),
        column(above.value, rows, above.distance),
        flatView(logits.value, rows, atoms, logits.distance),
        column(mean, rows, 1),
      ],
      writes: 1,
      wholes: [rows, atoms, atoms, whole(1, above.distance), whole(2, logits.distance), 1],
      reals: [low!, high!],
      node: node as Node,
    });
    return [d];
  },
  tdTarget(lowering, node) {
    const [rows, n] = node.inputs[0]!.shape as [number, number];
    const [value, choice, rewards, discounts] = [0, 1, 2, 3].map((i) =>
      inputRows(lowering, node, i),
    ) as [
      ReturnType<typeof inputRows>,
      ReturnType<typeof inputRows>,
      ReturnType<typeof inputRows>,
      ReturnType<typeof inputRows>,
    ];
    const target = lowering.fresh([rows]);
    lowering.launch({
      kernel: 'td_target_discounts',
      views: [
        run(target, [rows]),
        flatView(value.value, rows, n, value.distance),
        flatView(choice.value, rows, n, choice.distance),
        column(rewards.value, rows, rewards.distance),
        column(discounts.value, rows, discounts.distance),
      ],
      writes: 1,
      wholes: [
        rows,
        n,
        whole(1, value.distance),
        whole(2, choice.distance),
        whole(3, rewards.distance),
        whole(4, discounts.distance),
      ],
      node: node as Node,
    });
    return [target];
  },
  tdLoss(lowering, node) {
    const [rows, n] = node.inputs[0]!.shape as [number, number];
    const [q, actions] = [inputRows(lowering, node, 0), inputRows(lowering, node, 2)];
    const [targets, weights] = [dense(lowering, node, 1), inputColumn(lowering, node, 3)];
    const slopes = lowering.fresh([rows, n]);
    const scale = slopeScale(lowering, node, slopes);
    const [terms, errors] = [lowering.fresh([rows, 2]), lowering.fresh([rows])];
    const [targetRows, actionRows, weightRows] = [1, 2, 3].map((i) => rowsOfInput(node, i)) as [
      number,
      number,
      number,
    ];
    lowering.launch({
      kernel: 'td_loss_weighted',
      views: [
        flatView(slopes, rows, n, n),
        run(terms, [rows, 2]),
        column(errors, rows, 1),
        flatView(q.value, rows, n, q.distance),
        run(targets, [targetRows]),
        column(actions.value, actionRows, actions.distance),
        column(weights.value, weightRows, weights.distance),
      ],
      writes: 3,
      wholes: [
        rows,
        n,
        n,
        1,
        whole(3, q.distance),
        whole(5, actions.distance),
        whole(6, weights.distance),
        targetRows,
        actionRows,
        weightRows,
      ],
      reals: [node.attributes.options.delta!, scale],
      node: node as Node,
    });
    return [slopes, ...columnsOf(terms), errors];
  },
};
