/**
 * The kernels by name, with the names of their arguments in order. native/kernels defines them, and
 * a test compares the two lists.
 */

/**
 * Names of a kernel's arguments. The kernel writes the first `writes` tensors and only reads the
 * others. It also reads the tensors that it writes if `keeps` is true, or if its argument `beta` is
 * not 0.
 */
interface KernelShape {
  readonly writes: number;
  readonly keeps?: true;
  readonly tensors: readonly string[];
  readonly wholes: readonly string[];
  readonly reals: readonly string[];
}

export const kernels = {
  gemm: {
    writes: 1,
    tensors: ['c', 'a', 'b'],
    wholes: ['transA', 'transB', 'm', 'n', 'k', 'lda', 'ldb', 'ldc'],
    reals: ['alpha', 'beta'],
  },
  gemm_batched: {
    writes: 1,
    tensors: ['c', 'a', 'b'],
    wholes: [
      'transA',
      'transB',
      'batch',
      'm',
      'n',
      'k',
      'lda',
      'ldb',
      'ldc',
      'aBatch',
      'bBatch',
      'cBatch',
    ],
    reals: ['alpha', 'beta'],
  },
  linear_act: {
    writes: 2,
    tensors: ['y', 'z', 'x', 'x2', 'weight', 'bias'],
    wholes: [
      'batch',
      'rows',
      'outputs',
      'inputs',
      'split',
      'yStride',
      'xStride',
      'x2Stride',
      'yBatch',
      'xBatch',
      'pBatch',
      'op',
    ],
    reals: [],
  },
  linear_backward: {
    writes: 1,
    tensors: ['dx', 'dy', 'weight', 'y'],
    wholes: [
      'batch',
      'rows',
      'inputs',
      'outputs',
      'wStride',
      'dyStride',
      'yStride',
      'dxBatch',
      'dyBatch',
      'pBatch',
      'yBatch',
      'op',
    ],
    reals: [],
  },
  linear_gradients: {
    writes: 2,
    tensors: ['dw', 'db', 'dy', 'x', 'x2'],
    wholes: [
      'batch',
      'outputs',
      'inputs',
      'rows',
      'split',
      'dyStride',
      'xStride',
      'x2Stride',
      'dyBatch',
      'xBatch',
      'pBatch',
    ],
    reals: [],
  },
  unary: {
    writes: 1,
    tensors: ['y', 'x'],
    wholes: ['rows', 'columns', 'yStride', 'xStride', 'op'],
    reals: [],
  },
  unary_backward: {
    writes: 1,
    tensors: ['dx', 'dy', 'x'],
    wholes: ['rows', 'columns', 'dxStride', 'dyStride', 'xStride', 'op'],
    reals: [],
  },
  binary: {
    writes: 1,
    tensors: ['y', 'a', 'b'],
    wholes: ['rows', 'columns', 'yStride', 'aRow', 'aStep', 'bRow', 'bStep', 'op'],
    reals: [],
  },
  binary_backward: {
    writes: 1,
    tensors: ['dx', 'dy', 'a', 'b'],
    wholes: [
      'rows',
      'columns',
      'dxStride',
      'dyRow',
      'dyStep',
      'aRow',
      'aStep',
      'bRow',
      'bStep',
      'op',
    ],
    reals: [],
  },
  where: {
    writes: 1,
    tensors: ['y', 'condition', 'a', 'b'],
    wholes: [
      'rows',
      'columns',
      'yStride',
      'conditionRow',
      'conditionStep',
      'aRow',
      'aStep',
      'bRow',
      'bStep',
    ],
    reals: [],
  },
  clip: {
    writes: 1,
    tensors: ['y', 'x'],
    wholes: ['rows', 'columns', 'yStride', 'xStride'],
    reals: ['low', 'high'],
  },
  clip_backward: {
    writes: 1,
    tensors: ['dx', 'dy', 'x'],
    wholes: ['rows', 'columns', 'dxStride', 'dyStride', 'xStride'],
    reals: ['low', 'high'],
  },
  chain: {
    writes: 4,
    tensors: ['y0', 'y1', 'y2', 'y3', 'x0', 'x1', 'x2', 'x3', 'x4', 'x5', 'program'],
    wholes: [
      'rows',
      'columns',
      'y0Stride',
      'y1Stride',
      'y2Stride',
      'y3Stride',
      'x0Stride',
      'x1Stride',
      'x2Stride',
      'x3Stride',
      'x4Stride',
      'x5Stride',
    ],
    reals: [],
  },
  sum_chain: {
    writes: 4,
    tensors: ['y0', 'y1', 'y2', 'y3', 'x', 'x0', 'x1', 'x2', 'x3', 'x4', 'program'],
    wholes: ['kind', 'rows', 'columns', 'outputs'],
    reals: ['factor'],
  },
  reduce_rows: {
    writes: 1,
    tensors: ['out', 'x'],
    wholes: ['rows', 'columns', 'outStride', 'xStride', 'op'],
    reals: ['scale'],
  },
  sum_long: {
    writes: 1,
    tensors: ['out', 'x'],
    wholes: ['rows', 'pieces', 'piece', 'outStride', 'xStride'],
    reals: ['scale'],
  },
  softmax_rows: {
    writes: 1,
    tensors: ['y', 'x'],
    wholes: ['rows', 'columns', 'yStride', 'xStride', 'logarithm'],
    reals: [],
  },
  softmax_rows_backward: {
    writes: 1,
    tensors: ['dx', 'dy', 'y'],
    wholes: ['rows', 'columns', 'dxStride', 'dyStride', 'yStride', 'logarithm'],
    reals: [],
  },
  layer_norm: {
    writes: 2,
    tensors: ['y', 'kept', 'x', 'weight', 'bias'],
    wholes: ['rows', 'columns', 'yStride', 'xStride'],
    reals: ['eps'],
  },
  layer_norm_backward: {
    writes: 2,
    tensors: ['dx', 'terms', 'dy', 'x', 'kept', 'weight'],
    wholes: ['rows', 'columns', 'dxStride', 'termsStride', 'dyStride', 'xStride'],
    reals: [],
  },
  norm_act: {
    writes: 2,
    tensors: ['y', 'kept', 'x', 'bias', 'weight', 'shift'],
    wholes: ['rows', 'columns', 'yStride', 'xStride', 'op'],
    reals: ['eps'],
  },
  norm_act_backward: {
    writes: 3,
    keeps: true,
    tensors: ['dx', 'terms', 'dy', 'x', 'kept', 'bias', 'weight', 'shift'],
    wholes: ['rows', 'columns', 'dxStride', 'termsStride', 'dyStride', 'xStride', 'op'],
    reals: [],
  },
  norm_act_batched: {
    writes: 2,
    tensors: ['y', 'kept', 'x', 'bias', 'weight', 'shift'],
    wholes: ['rows', 'columns', 'yStride', 'xStride', 'op', 'memberRows', 'pBatch'],
    reals: ['eps'],
  },
  norm_act_backward_batched: {
    writes: 1,
    tensors: ['out', 'dy', 'x', 'kept', 'bias', 'weight', 'shift'],
    wholes: ['rows', 'columns', 'outStride', 'dyStride', 'xStride', 'op', 'memberRows', 'pBatch'],
    reals: [],
  },
  scatter_columns: {
    writes: 1,
    keeps: true,
    tensors: ['out', 'x', 'index'],
    wholes: ['rows', 'columns', 'outStride', 'xStride', 'indexStride'],
    reals: [],
  },
  squashed_gaussian: {
    writes: 2,
    tensors: ['action', 'terms', 'out', 'noise', 'box'],
    wholes: ['rows', 'n', 'actionStride', 'outStride', 'form', 'correction'],
    reals: ['low', 'high', 'meanLimit'],
  },
  squashed_gaussian_rows: {
    writes: 2,
    tensors: ['action', 'logProb', 'out', 'noise', 'box'],
    wholes: ['rows', 'n', 'actionStride', 'outStride', 'form', 'correction'],
    reals: ['low', 'high', 'meanLimit'],
  },
  squashed_gaussian_backward: {
    writes: 1,
    tensors: ['dOut', 'out', 'noise', 'box', 'dAction', 'dLogProb'],
    wholes: [
      'rows',
      'n',
      'dOutStride',
      'outStride',
      'dActionStride',
      'dLogProbStride',
      'form',
      'correction',
    ],
    reals: ['low', 'high', 'meanLimit', 'scale'],
  },
  categorical_project: {
    writes: 2,
    tensors: ['projected', 'mean', 'probs', 'rewards', 'discounts', 'cost'],
    wholes: [
      'rows',
      'atoms',
      'rewardStride',
      'discountStride',
      'costStride',
      'rewardRows',
      'discountRows',
      'costRows',
    ],
    reals: ['low', 'high'],
  },
  categorical_target: {
    writes: 2,
    tensors: ['projected', 'mean', 'logits', 'rewards', 'discounts', 'cost', 'factor'],
    wholes: [
      'rows',
      'atoms',
      'logitsStride',
      'rewardStride',
      'discountStride',
      'costStride',
      'rewardRows',
      'discountRows',
      'costRows',
    ],
    reals: ['low', 'high'],
  },
  categorical_loss: {
    writes: 3,
    tensors: ['dLogits', 'terms', 'off', 'logits', 'targets', 'weights'],
    wholes: [
      'rows',
      'atoms',
      'dStride',
      'offStride',
      'logitsStride',
      'weightStride',
      'targetRows',
      'weightRows',
    ],
    reals: ['least', 'scale', 'low', 'high'],
  },
  categorical_mean: {
    writes: 1,
    tensors: ['mean', 'logits'],
    wholes: ['rows', 'atoms', 'meanStride', 'logitsStride'],
    reals: ['low', 'high'],
  },
  categorical_mean_backward: {
    writes: 1,
    tensors: ['dLogits', 'dMean', 'logits', 'mean'],
    wholes: ['rows', 'atoms', 'dStride', 'dMeanStride', 'logitsStride', 'meanStride'],
    reals: ['low', 'high'],
  },
  count_non_finite: {
    writes: 1,
    keeps: true,
    tensors: ['found', 'x', 'ends', 'counter'],
    wholes: ['n', 'parts', 'every'],
    reals: [],
  },
  moments: {
    writes: 3,
    keeps: true,
    tensors: ['mean', 'variance', 'factor', 'batchMean', 'batchVariance', 'count'],
    wholes: ['columns', 'rows', 'after', 'outside'],
    reals: ['start', 'eps'],
  },
  moments_advance: { writes: 1, keeps: true, tensors: ['count'], wholes: ['rows'], reals: [] },
  patches: {
    writes: 1,
    tensors: ['out', 'x'],
    wholes: [
      'rows',
      'channels',
      'height',
      'width',
      'kernelHeight',
      'kernelWidth',
      'stride',
      'padding',
      'xStride',
    ],
    reals: [],
  },
  patches_backward: {
    writes: 1,
    tensors: ['dx', 'd'],
    wholes: [
      'rows',
      'channels',
      'height',
      'width',
      'kernelHeight',
      'kernelWidth',
      'stride',
      'padding',
      'dxStride',
    ],
    reals: [],
  },
  planes: {
    writes: 1,
    tensors: ['y', 'z', 'bias'],
    wholes: ['rows', 'channels', 'places', 'yStride', 'activation'],
    reals: [],
  },
  planes_backward: {
    writes: 1,
    tensors: ['dz', 'dy', 'y'],
    wholes: ['rows', 'channels', 'places', 'dyStride', 'yStride', 'activation'],
    reals: [],
  },
  bias_act: {
    writes: 1,
    tensors: ['y', 'x', 'bias'],
    wholes: ['rows', 'columns', 'yStride', 'xStride', 'activation'],
    reals: [],
  },
  bias_act_batched: {
    writes: 2,
    tensors: ['y', 'z', 'x', 'bias'],
    wholes: [
      'batch',
      'rows',
      'columns',
      'yStride',
      'xStride',
      'yBatch',
      'xBatch',
      'biasBatch',
      'op',
    ],
    reals: [],
  },
  act_backward: {
    writes: 1,
    tensors: ['dx', 'dy', 'y'],
    wholes: ['rows', 'columns', 'dxStride', 'dyStride', 'yStride', 'activation'],
    reals: [],
  },
  column_sums: {
    writes: 1,
    tensors: ['out', 'x'],
    wholes: ['rows', 'columns', 'xStride'],
    reals: ['scale', 'beta'],
  },
  column_sums_batched: {
    writes: 1,
    tensors: ['out', 'x'],
    wholes: ['batch', 'rows', 'columns', 'xStride', 'xBatch', 'outBatch'],
    reals: ['scale', 'beta'],
  },
  argmax_rows: {
    writes: 2,
    tensors: ['index', 'value', 'x'],
    wholes: ['rows', 'columns', 'xStride'],
    reals: [],
  },
  gather_columns: {
    writes: 1,
    tensors: ['out', 'x', 'index'],
    wholes: ['rows', 'columns', 'xStride', 'indexStride'],
    reals: [],
  },
  gather: {
    writes: 1,
    tensors: ['out', 'table', 'index'],
    wholes: ['rows', 'columns', 'tableRows', 'outStride', 'tableStride'],
    reals: [],
  },
  take_rows: {
    writes: 1,
    tensors: ['out', 'table', 'index'],
    wholes: ['rows', 'columns', 'tableRows', 'outStride', 'tableStride', 'indexStride', 'apart'],
    reals: [],
  },
  take_rows_backward: {
    writes: 1,
    tensors: ['dTable', 'dy', 'index'],
    wholes: ['rows', 'columns', 'tableRows', 'dTableStride', 'dyStride', 'indexStride'],
    reals: ['beta'],
  },
  pick_backward: {
    writes: 1,
    tensors: ['dx', 'dy', 'index'],
    wholes: ['rows', 'n', 'inner', 'dxStride', 'dyStride', 'indexStride'],
    reals: ['beta'],
  },
  cumsum: {
    writes: 1,
    tensors: ['y', 'x'],
    wholes: ['outer', 'n', 'inner', 'reverse'],
    reals: [],
  },
  rank_rows: {
    writes: 1,
    tensors: ['ranks', 'x'],
    wholes: ['rows', 'columns', 'ranksStride', 'xStride'],
    reals: [],
  },
  scatter_along_rows: {
    writes: 1,
    tensors: ['y', 'x', 'index'],
    wholes: ['rows', 'columns', 'yStride', 'xStride', 'indexStride'],
    reals: [],
  },
  gather_along_rows: {
    writes: 1,
    tensors: ['y', 'x', 'index'],
    wholes: ['rows', 'columns', 'n', 'yStride', 'xStride', 'indexStride'],
    reals: [],
  },
  categorical_draw: {
    writes: 1,
    tensors: ['index', 'logits', 'uniform'],
    wholes: ['rows', 'columns', 'logitsStride'],
    reals: [],
  },
  unpack_bits: {
    writes: 1,
    tensors: ['out', 'words'],
    wholes: ['rows', 'columns', 'outStride', 'wordsStride'],
    reals: [],
  },
  copy2d: {
    writes: 1,
    tensors: ['y', 'x'],
    wholes: ['rows', 'columns', 'yStride', 'xStride'],
    reals: [],
  },
  copy4d: {
    writes: 1,
    tensors: ['y', 'x'],
    wholes: ['n0', 'n1', 'n2', 'n3', 'y0', 'y1', 'y2', 'y3', 'x0', 'x1', 'x2', 'x3'],
    reals: ['beta'],
  },
  convert: {
    writes: 1,
    tensors: ['y', 'x'],
    wholes: ['rows', 'columns', 'yStride', 'xStride', 'dtype'],
    reals: ['scale', 'shift'],
  },
  fill: { writes: 1, tensors: ['out'], wholes: ['n', 'pattern'], reals: [] },
  axpby: { writes: 1, tensors: ['y', 'x'], wholes: ['n'], reals: ['alpha', 'beta'] },
  follow_every: {
    writes: 1,
    keeps: true,
    tensors: ['to', 'from', 'counter'],
    wholes: ['n', 'every'],
    reals: ['tau', 'rest'],
  },
  count_up: { writes: 1, keeps: true, tensors: ['word'], wholes: [], reals: [] },
  goal_reward: {
    writes: 1,
    tensors: ['reward', 'achieved', 'goal', 'steps'],
    wholes: ['rows', 'n', 'd', 'rewardStride', 'achievedStride', 'goalStride', 'stepsStride'],
    reals: ['gamma', 'threshold'],
  },
  td_target: {
    writes: 1,
    tensors: ['y', 'value', 'choice', 'rewards', 'dones', 'truncated'],
    wholes: [
      'rows',
      'actions',
      'valueStride',
      'choiceStride',
      'rewardStride',
      'doneStride',
      'truncatedStride',
    ],
    reals: ['gamma'],
  },
  td_target_discounts: {
    writes: 1,
    tensors: ['y', 'value', 'choice', 'rewards', 'discounts'],
    wholes: ['rows', 'actions', 'valueStride', 'choiceStride', 'rewardStride', 'discountStride'],
    reals: [],
  },
  td_loss_weighted: {
    writes: 3,
    tensors: ['dq', 'terms', 'priorities', 'q', 'y', 'action', 'weights'],
    wholes: [
      'rows',
      'actions',
      'dqStride',
      'priorityStride',
      'qStride',
      'actionStride',
      'weightStride',
      'yRows',
      'actionRows',
      'weightRows',
    ],
    reals: ['delta', 'scale'],
  },
  td_loss_target: {
    writes: 3,
    tensors: [
      'dq',
      'terms',
      'priorities',
      'q',
      'value',
      'choice',
      'rewards',
      'discounts',
      'action',
      'weights',
    ],
    wholes: [
      'rows',
      'actions',
      'qStride',
      'valueStride',
      'choiceStride',
      'rewardStride',
      'discountStride',
      'actionStride',
      'weightStride',
      'targetRows',
      'actionRows',
      'weightRows',
    ],
    reals: ['delta', 'scale'],
  },
  grad_norm: { writes: 1, tensors: ['partial', 'g'], wholes: ['n'], reals: [] },
  clip_scale: { writes: 1, tensors: ['factors', 'partial'], wholes: [], reals: ['maxNorm'] },
  adam: {
    writes: 4,
    keeps: true,
    tensors: ['p', 'm', 'v', 'factors', 'g', 'partial', 'steps', 'rate'],
    wholes: ['n', 'ahead'],
    reals: ['rest1', 'rest2', 'epsilon', 'decay', 'pull', 'maxNorm'],
  },
  adam_follow: {
    writes: 5,
    keeps: true,
    tensors: ['p', 'm', 'v', 'target', 'factors', 'g', 'partial', 'steps', 'rate'],
    wholes: ['n', 'ahead', 'first', 'count', 'every'],
    reals: ['rest1', 'rest2', 'epsilon', 'decay', 'pull', 'maxNorm', 'tau', 'rest'],
  },
  sgd: {
    writes: 3,
    keeps: true,
    tensors: ['p', 'direction', 'factors', 'g', 'partial', 'rate'],
    wholes: ['n', 'nesterov'],
    reals: ['momentum', 'decay', 'maxNorm'],
  },
  sgd_follow: {
    writes: 4,
    keeps: true,
    tensors: ['p', 'direction', 'target', 'factors', 'g', 'partial', 'steps', 'rate'],
    wholes: ['n', 'ahead', 'first', 'count', 'every', 'nesterov'],
    reals: ['momentum', 'decay', 'maxNorm', 'tau', 'rest'],
  },
  random_uniform: { writes: 1, tensors: ['out', 'state'], wholes: ['n'], reals: ['low', 'high'] },
  random_normal: {
    writes: 1,
    tensors: ['out', 'state'],
    wholes: ['n'],
    reals: ['mean', 'deviation'],
  },
  random_advance: { writes: 1, tensors: ['state'], wholes: ['blocks'], reals: [] },
  step_end: {
    writes: 4,
    keeps: true,
    tensors: ['out', 'numbers', 'counters', 'state', 'x', 'table'],
    wholes: ['scalars', 'count', 'groups', 'due', 'blocks', 'size'],
    reals: ['alpha', 'beta'],
  },
  draw_places: { writes: 1, tensors: ['places', 'head'], wholes: ['n'], reals: [] },
  gather_places: {
    writes: 1,
    tensors: ['out', 'ring', 'places'],
    wholes: ['rows', 'words', 'ringRows', 'shift'],
    reals: [],
  },
  gather_fields: {
    writes: 1,
    tensors: ['out', 'ring', 'fresh', 'places'],
    wholes: ['rows', 'width', 'offset', 'stride', 'ringRows', 'freshRows', 'unit', 'shift'],
    reals: [],
  },
  put_places: {
    writes: 1,
    keeps: true,
    tensors: ['ring', 'fresh', 'head'],
    wholes: ['most', 'words', 'ringRows', 'shift'],
    reals: [],
  },
  /** For tests: makes the stream fail. */
  fail: { writes: 0, tensors: [], wholes: [], reals: [] },
  /** For tests: keeps the stream busy. */
  spin: { writes: 0, tensors: [], wholes: ['microseconds'], reals: [] },
  /** For tests: blocks the stream until the value in `word` is not zero. */
  latch: { writes: 0, tensors: ['word'], wholes: ['milliseconds'], reals: [] },
} as const satisfies Record<string, KernelShape>;

/** Old names of kernels, valid until 0.5, and their present names. */
const oldKernelNames = { count_odd: 'count_non_finite', copy_every: 'follow_every' } as const;
type OldKernelName = keyof typeof oldKernelNames;

/**
 * `count_odd` is the old name of `count_non_finite`, and `copy_every` that of `follow_every`. Both
 * are valid until 0.5.
 */
export type KernelName = keyof typeof kernels | OldKernelName;
/** `copy_every` had no reals, and copied like `follow_every` with the reals of COPY. */
type ShapeOf<K extends KernelName> = K extends 'copy_every'
  ? Omit<(typeof kernels)['follow_every'], 'reals'> & { readonly reals: readonly [] }
  : (typeof kernels)[K extends OldKernelName ? (typeof oldKernelNames)[K] : K];

const NONE: readonly number[] = [];
/** tau and rest with which `follow_every` copies */
const COPY: readonly number[] = [1, 0];

/** Returns the reals of a launch by this name that gives none. */
export const omittedReals = (name: string): readonly number[] =>
  name === 'copy_every' ? COPY : NONE;

/** Returns the present name of a kernel. */
export const presentKernelName = (name: string): string =>
  Object.hasOwn(oldKernelNames, name) ? oldKernelNames[name as OldKernelName] : name;

/** A tuple with one value per name. */
type Values<Names extends readonly string[], V> = { readonly [I in keyof Names]: V };
/**
 * An object with one argument list, under its key. If a kernel has no such arguments, the list may
 * be omitted.
 */
type Listed<Key extends string, Names extends readonly string[], V> = Names extends readonly []
  ? { readonly [K in Key]?: readonly [] }
  : { readonly [K in Key]: Values<Names, V> };
type Arguments<S extends KernelShape, T> = Listed<'tensors', S['tensors'], T> &
  Listed<'wholes', S['wholes'], number> &
  Listed<'reals', S['reals'], number>;

/**
 * The arguments of a launch: tensors (`T`), whole numbers and reals, each in the kernel's order. A
 * kernel without any arguments needs no argument object. Several names give a union with one member
 * for each of them.
 */
export type ArgumentsOf<K extends KernelName, T> = K extends KernelName
  ? Record<never, never> extends Arguments<ShapeOf<K>, T>
    ? [args?: Arguments<ShapeOf<K>, T>]
    : [args: Arguments<ShapeOf<K>, T>]
  : never;
