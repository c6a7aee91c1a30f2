/**
 * Encodes an ONNX model with Protocol Buffers. The model has inputs and outputs by name. Nodes
 * and constants keep the order in which they are added. Field numbers are those of onnx.proto3, IR
 * version 8. Operators are those of opset 17.
 */
import { Message } from '../../base/protobuf.ts';

const IR_VERSION = 8;
const OPSET = 17;

/** Numbers of the element types in TensorProto.DataType. */
const dataTypes = { float32: 1, int64: 7, bool: 9 } as const;
export type OnnxDType = keyof typeof dataTypes;

/** Value of a node's attribute: a float, an integer, or a list of integers. */
export type Attribute =
  | { readonly float: number }
  | { readonly int: number }
  | { readonly ints: readonly number[] };

/**
 * Returns an AttributeProto. Its fields are f = 2, i = 3, ints = 8 and type = 20. The types are
 * FLOAT 1, INT 2, INTS 7.
 */
function attribute(name: string, value: Attribute): Message {
  const message = new Message().text(1, name);
  if ('float' in value) return message.float(2, value.float).int(20, 1);
  if ('int' in value) return message.int(3, value.int).int(20, 2);
  for (const each of value.ints) message.int(8, each);
  return message.int(20, 7);
}

/**
 * Returns a TensorProto. Its fields are dims = 1, data_type = 2, name = 8 and raw_data = 9, which
 * is little-endian.
 */
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
 * Returns a ValueInfoProto, with name = 1 and type = 2.
 *
 * - The type has tensor_type = 1, in which elem_type = 1 and shape = 2.
 * - The shape has dim = 1, in which dim_value = 1 and dim_param = 2.
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

/**
 * Builds a graph. Every value in it has a name. The first dimension of inputs and outputs is the
 * symbol `n`, which stands for any number of rows.
 */
export class OnnxGraph {
  // Fields of GraphProto: node = 1, name = 2, initializer = 5, input = 11, output = 12.
  readonly #graph = new Message().text(2, 'policy');
  #count = 0;

  /** Declares the input `name` of shape [n, width], and returns its name. */
  input(name: string, width: number, dtype: OnnxDType = 'float32'): string {
    this.#graph.message(11, valueInfo(name, dtype, ['n', width]));
    return name;
  }
  /** Declares the value `name` as an output of shape [n], or [n, width] if `width` is given. */
  output(name: string, dtype: OnnxDType, width?: number): void {
    this.#graph.message(12, valueInfo(name, dtype, width === undefined ? ['n'] : ['n', width]));
  }

  /**
   * Adds a float32 constant and returns its name. The default shape is a vector, and the shape []
   * is a scalar.
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
  /** Adds an int64 vector as a constant and returns its name. */
  wholes(name: string, values: readonly number[]): string {
    this.#graph.message(
      5,
      tensor(name, 'int64', [values.length], bytesOf(BigInt64Array.from(values, BigInt))),
    );
    return name;
  }

  /**
   * Adds a node. Returns the name of its output, or the first name of `outputs`. The fields of
   * NodeProto are input = 1, output = 2, name = 3, op_type = 4, attribute = 5.
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
   * Returns the bytes of the model.
   *
   * - Fields of ModelProto: ir_version = 1, producer_name = 2, graph = 7, opset_import = 8.
   * - Fields of opset_import: domain = 1, version = 2.
   */
  encode(): Uint8Array {
    const model = new Message().int(1, IR_VERSION).text(2, 'hotslot').message(7, this.#graph);
    return new Uint8Array(model.message(8, new Message().text(1, '').int(2, OPSET)).bytes);
  }
}
