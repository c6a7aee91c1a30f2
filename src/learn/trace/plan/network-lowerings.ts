/**
 * Launches of a network's forward pass in a trace. A linear layer is one launch with its bias and its
 * activation, for all members of an ensemble, unless a vendor's library multiplies it
 * (linear-launches.ts). Every other layer enqueues its own launches, member by member.
 */
import { linearOf } from '../../network/kinds.ts';
import { type Network, type Stage, stagesOf } from '../../network/network.ts';
import { slopeReadsInput } from '../../ops/elementwise.ts';
import { isView, type Node, type NodeOfKind } from '../tape.ts';
import { inputPlaces } from './input-places.ts';
import type {
  LaunchResult,
  ParameterVector,
  ProductSource,
  Rows,
  Run,
  StagePass,
  Value,
} from './launches.ts';
import { type LinearPass, linearForward, single } from './linear-launches.ts';
import type { Lowering } from './lowering.ts';
import {
  freshRows,
  membersFrom,
  membersRead,
  memberView,
  named,
  parametersOf,
  placeOf,
  range,
  rowsFrom,
  runOf,
  runsOf,
  vectorFrom,
} from './members.ts';

type NetworkNode = NodeOfKind<'network'>;

const rowsOfInput = ({ inputs: [input] }: NetworkNode): number => input!.shape[0] as number;

/** Returns whether no launch computes the value of an op, or one has computed it already. */
const isReady = (lowering: Lowering, node: Node): boolean =>
  lowering.has(node) ||
  node.op === 'input' ||
  (isView(node) && isReady(lowering, lowering.merged.of(node.inputs[0]!)));

/** Returns why the passes of two ops that run one network are apart, or null if they are joined. */
function apartFrom(lowering: Lowering, node: NetworkNode, other: NetworkNode): string | null {
  const { rules, merged } = lowering;
  const { network, members } = node.attributes;
  const stages = stagesOf(network);
  if (!rules.joins) return 'this device runs each input by itself';
  if (merged.sectionOf(other as Node) !== merged.sectionOf(node as Node))
    return 'another section of the plan has the other input';
  if (stages.some(({ layer }) => linearOf(layer)?.epsilon !== null))
    return 'only linear layers and activations take two inputs';
  const inputs = [node, other].map((each) => merged.of(each.inputs[0]!));
  if (inputs.some((input) => inputPlaces(lowering, input)))
    return 'an input is read from two places already';
  if (!inputs.every((input) => isReady(lowering, input)))
    return 'launches between them compute the other input';
  const m = rowsOfInput(node) + rowsOfInput(other);
  for (const { inputs: k, outputs: n } of stages) {
    const why = rules.apart({ batch: members, m, n, k });
    if (why) return why;
  }
  return null;
}

/** An op that runs the same network with the same parameters on another input. */
interface Partner {
  readonly node: NetworkNode;
  /** why its launches are apart, or null */
  readonly apart: string | null;
}

/** Returns a later op that the launches of this one compute too, or the reason why they do not. */
function partnerOf(lowering: Lowering, node: NetworkNode): Partner | null {
  const { of, nodes } = lowering.merged;
  const { network, members } = node.attributes;
  const partners = nodes
    .filter(
      (other): other is NetworkNode =>
        other.op === 'network' &&
        other !== node &&
        other.attributes.network === network &&
        other.attributes.members === members &&
        of(other.inputs[1]!) === of(node.inputs[1]!) &&
        !lowering.has(other),
    )
    .map((other) => ({ node: other, apart: apartFrom(lowering, node, other) }));
  return partners.find(({ apart }) => apart === null) ?? partners[0] ?? null;
}

/** Returns the rows of an op's input, from one place or from the two parts of a concatenation. */
function sourceOf(lowering: Lowering, node: Node, given: Node): ProductSource {
  const input = lowering.merged.of(given);
  const parts = inputPlaces(lowering, input) ?? [input];
  const places = parts.map((part): Rows => {
    const columns = part.shape[1] as number;
    const { value, distance } = lowering.rows(node, part);
    return { value, columns, distance, batch: 0 };
  });
  const [first, second] = places as [Rows, Rows?];
  return second ? { first, second, split: first.columns } : single(first);
}

/** A forward pass of one or two ops that run a network with the same parameters. */
class ForwardPass {
  readonly #lowering: Lowering;
  readonly #joined: readonly NetworkNode[];
  readonly #network: Network;
  readonly #vector: ParameterVector;
  /** rows of all ops */
  readonly #rows: number;
  /** whether a backward pass follows */
  readonly #sloped: boolean;
  readonly #note: string | null;

  constructor(lowering: Lowering, joined: readonly NetworkNode[], note: string | null) {
    const [node] = joined as [NetworkNode];
    const { network } = node.attributes;
    this.#lowering = lowering;
    this.#joined = joined;
    this.#network = network;
    this.#vector = { value: lowering.value(node.inputs[1]!), batch: network.parameterCount };
    this.#rows = joined.reduce((sum, each) => sum + rowsOfInput(each), 0);
    const { nodes, of } = lowering.merged;
    this.#sloped = nodes.some(
      ({ op, inputs: [, forward] }) =>
        op === 'networkSlope' && joined.includes(of(forward!) as NetworkNode),
    );
    this.#note = note;
  }

  /** Launches the layers for neighboring members. The last one writes to `result`. */
  run(run: Run, source: ProductSource, result: Value): StagePass[] {
    const stages = stagesOf(this.#network);
    let x = source;
    return stages.map((stage, i): StagePass => {
      const y =
        i === stages.length - 1
          ? runOf(result, run, this.#rows, stage.outputs)
          : freshRows(this.#lowering, run, this.#rows, stage.outputs);
      const done = this.#stage(run, stage, x, y, i === 0 ? this.#note : null);
      x = single(y);
      return done;
    });
  }

  #stage(run: Run, stage: Stage, x: ProductSource, y: Rows, note: string | null): StagePass {
    const [lowering, rows] = [this.#lowering, this.#rows];
    const [node] = this.#joined as [NetworkNode];
    const { layer, inputs, outputs } = stage;
    const fresh = (columns: number): Rows => freshRows(lowering, run, rows, columns);
    const kind = linearOf(layer);
    if (kind) {
      const isNorm = kind.epsilon !== null;
      const z = this.#sloped && !isNorm && slopeReadsInput(kind.op) ? fresh(outputs) : y;
      const norm = isNorm ? { product: fresh(outputs), kept: fresh(2) } : null;
      const parameters = vectorFrom(this.#vector, run.from);
      const pass: LinearPass = { node, run, rows, stage, parameters };
      const done: StagePass = { y, z, norm, kept: null };
      linearForward(lowering, pass, kind, x, done, { note, results: this.#results(y, run, stage) });
      return done;
    }
    const keeps = layer.keeps?.(inputs) ?? 0;
    const kept = keeps > 0 ? fresh(keeps) : null;
    for (const p of range(run.count)) {
      const operands = named([
        ['y', memberView(y, p, rows)],
        ['kept', kept ? memberView(kept, p, rows) : undefined],
        ['x', memberView(x.first, p, rows)],
      ]);
      const from = operands.views.length;
      const one: Run = { from: run.from + p, count: 1 };
      lowering.call(
        node as Node,
        layer.name,
        [...operands.views, ...parametersOf(vectorFrom(this.#vector, one.from), stage)],
        kept ? 2 : 1,
        this.#results(membersFrom(y, p), one, stage),
        (stream, tensors) =>
          layer.forward(stream, {
            ...operands.pick(tensors),
            parameters: tensors.slice(from),
          }),
      );
    }
    return { y, z: y, norm: null, kept };
  }

  /** Returns the rows of each op, as results of a launch. */
  #results(y: Rows, { from, count }: Run, stage: Stage): LaunchResult[] {
    const [own] = this.#joined.map(rowsOfInput) as [number];
    return range(count).flatMap((p) =>
      this.#joined.map((each, k) => ({
        view: memberView(rowsFrom(y, k * own), p, rowsOfInput(each)),
        node: each as Node,
        place: placeOf(this.#network, from + p, stage, 'output'),
      })),
    );
  }
}

/** Lowers the forward passes of the members that are read. Only the last outputs are the op's value. */
export function lowerNetwork(lowering: Lowering, node: NetworkNode): Value {
  const { network, members } = node.attributes;
  const partner = partnerOf(lowering, node);
  const joined = partner?.apart === null ? [node, partner.node] : [node];
  const [first, second] = joined.map((each) =>
    sourceOf(lowering, node as Node, each.inputs[0]!),
  ) as [ProductSource, ProductSource?];
  const own = rowsOfInput(node);
  const total = joined.reduce((sum, each) => sum + rowsOfInput(each), 0);
  const result = lowering.fresh(second ? [members, total, network.outputs] : node.shape);
  const read = joined.map((each) => membersRead(lowering, each as Node, members));
  const note = partner?.apart ? `apart from another input of the network: ${partner.apart}` : null;
  const pass = new ForwardPass(lowering, joined, note);
  const source = second ? { first: first.first, second: second.first, split: -own } : first;
  const runs = runsOf(new Set(read.flatMap((each) => [...each])), lowering.rules.batches).map(
    (run) => ({
      ...run,
      stages: pass.run(run, source, result),
    }),
  );
  for (const [k, each] of joined.entries()) {
    const at = (rows: Rows): Rows => rowsFrom(rows, k * own);
    lowering.setPass(each as Node, {
      source: k === 0 ? first : second!,
      runs: runs.map(({ stages, ...run }) => ({
        ...run,
        stages: stages.map((stage) => ({ ...stage, y: at(stage.y), z: at(stage.z) })),
      })),
    });
  }
  if (!second) return result;
  const [value, other] = joined.map(({ shape }, k) => ({
    ...result,
    offset: k * own * network.outputs,
    strides: [total * network.outputs, network.outputs, 1].slice(-shape.length),
  })) as unknown as [Value, Value];
  lowering.setEarly(joined[1] as Node, other);
  return value;
}
