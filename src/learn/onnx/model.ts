/**
 * An ONNX model as Protocol Buffers: nodes and constants in the order in which they are added, one
 * input, some outputs. Field numbers are those of onnx.proto3, IR version 8, and operators those of
 * opset 17.
 */
import { Message } from '../../base/protobuf.ts';

const IR_VERSION = 8;
const OPSET = 17;

/** TensorProto.DataType */
const dataTypes = { float32: 1, int64: 7 } as const;
export type OnnxDType = keyof typeof dataTypes;

/** An attribute of a node: a float, an integer, or integers. */
export type Attribute =
  | { readonly float: number }
  | { readonly int: number }
  | { readonly ints: readonly number[] };

/** AttributeProto: f = 2, i = 3, ints = 8, and type = 20: FLOAT 1, INT 2, INTS 7. */
function attribute(name: string, value: Attribute): Message {
  const message = new Message().text(1, name);
  if ('float' in value) return message.float(2, value.float).int(20, 1);
  if ('int' in value) return message.int(3, value.int).int(20, 2);
  for (const each of value.ints) message.int(8, each);
  return message.int(20, 7);
}

/** TensorProto: dims = 1, data_type = 2, name = 8, raw_data = 9, little-endian. */
function tensor(
  name: string,
  dtype: OnnxDType,
  shape: readonly number[],
  bytes: Uint8Array,
): Message {
  const message = new Message();
  for (const size of shape) message.int(1, size);
  return message.int(2, dataTypes[dtype]).text(8, name).data(9, bytes);
}

/**
 * ValueInfoProto: name = 1, type = 2. In the type: tensor_type = 1, in which elem_type = 1, shape =
 * 2. In the shape: dim = 1, in which dim_value = 1, dim_param = 2.
 */
function valueInfo(name: string, dtype: OnnxDType, shape: readonly (number | string)[]): Message {
  const dims = new Message();
  for (const size of shape)
    dims.message(
      1,
      typeof size === 'string' ? new Message().text(2, size) : new Message().int(1, size),
    );
  const type = new Message().int(1, dataTypes[dtype]).message(2, dims);
  return new Message().text(1, name).message(2, new Message().message(1, type));
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array | BigInt64Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** A graph under construction. Every value has a name. Batches have `n` rows, for any n. */
export class OnnxGraph {
  // GraphProto: node = 1, name = 2, initializer = 5, input = 11, output = 12.
  readonly #graph = new Message().text(2, 'policy');
  #count = 0;

  input(name: string, width: number): string {
    this.#graph.message(11, valueInfo(name, 'float32', ['n', width]));
    return name;
  }
  /** Declares the value of this name as an output, [n] or [n, width]. */
  output(name: string, dtype: OnnxDType, width?: number): void {
    this.#graph.message(12, valueInfo(name, dtype, width === undefined ? ['n'] : ['n', width]));
  }

  /**
   * Adds a float32 constant and returns its name. Without a shape it is a vector, with [] one
   * number.
   */
  floats(
    name: string,
    values: Float32Array | readonly number[],
    shape: readonly number[] = [values.length],
  ): string {
    const data = values instanceof Float32Array ? values : Float32Array.from(values);
    this.#graph.message(5, tensor(name, 'float32', shape, bytesOf(data)));
    return name;
  }
  /** Adds a constant vector of int64 and returns its name. */
  wholes(name: string, values: readonly number[]): string {
    this.#graph.message(
      5,
      tensor(name, 'int64', [values.length], bytesOf(BigInt64Array.from(values, BigInt))),
    );
    return name;
  }

  /**
   * Adds a node and returns the name of its output, or of the first of `outputs`. NodeProto: input
   * = 1, output = 2, name = 3, op_type = 4, attribute = 5.
   */
  node(
    op: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, Attribute>> = {},
    outputs: readonly string[] = [`${op}_${this.#count}`],
  ): string {
    const message = new Message();
    for (const name of inputs) message.text(1, name);
    for (const name of outputs) message.text(2, name);
    message.text(3, `${this.#count++}.${op}`).text(4, op);
    for (const [name, value] of Object.entries(attributes))
      message.message(5, attribute(name, value));
    this.#graph.message(1, message);
    return outputs[0] as string;
  }

  /**
   * Returns the bytes of the model. ModelProto: ir_version = 1, producer_name = 2, graph = 7,
   * opset_import = 8, of which version = 2.
   */
  encode(): Uint8Array {
    const model = new Message().int(1, IR_VERSION).text(2, 'hotslot').message(7, this.#graph);
    return new Uint8Array(model.message(8, new Message().text(1, '').int(2, OPSET)).bytes);
  }
}
