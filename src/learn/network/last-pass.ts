/**
 * Remembers the last forward pass of a workspace, so that a backward pass that does not match it is
 * rejected.
 */

import { stateError } from '../../base/errors.ts';
import type { Tensor } from '../../device/device.ts';

type Floats = Tensor<'float32'>;
type Parameters = readonly (readonly Floats[])[];

/**
 * Stores the input and parameters of a workspace's last forward pass. A second forward() before
 * backward() is valid, so only backward() checks its arguments. The check compares handles and
 * offsets in memory, because the caller may pass new view objects.
 */
export class LastPass {
  #pass: { readonly input: Floats; readonly parameters: Parameters } | null = null;
  /** whether backward() has overwritten outputGradient since the property was last read */
  #spent = false;

  /**
   * Forgets the last pass. Called before a forward pass, which may throw after a part of its
   * launches.
   */
  forget(): void {
    this.#pass = null;
  }
  /** Remembers a pass after its launches. */
  forward(input: Floats, parameters: Parameters): void {
    this.#pass = { input, parameters };
    this.#spent = false;
  }
  /**
   * Allows another backward pass. The caller has read outputGradient, and may write a new gradient
   * to it.
   */
  renew(): void {
    this.#spent = false;
  }
  /** Throws ERR_HOTSLOT_STATE_EMPTY unless a backward pass with these arguments is valid now. */
  backward(input: Floats, parameters: Parameters): void {
    const pass = this.#pass;
    if (pass === null)
      throw refusal(
        'this workspace has no forward pass yet; call forward() with it and this input first',
      );
    const other = different(pass.input, input)
      ? 'another input'
      : pass.parameters.some((of, i) => of.some((each, j) => different(each, parameters[i]?.[j])))
        ? 'other parameters'
        : null;
    if (other !== null)
      throw refusal(
        `the last forward() of this workspace had ${other} and has overwritten the values that backward() needs; use one workspace for each`,
      );
    if (this.#spent)
      throw refusal(
        'backward() was called since the last forward() of this workspace and overwrote its outputGradient; call forward() again, or write a new gradient to workspace.outputGradient',
      );
    this.#spent = true;
  }
}

const refusal = (why: string) => stateError('EMPTY', `backward: ${why}`);

const different = (a: Floats, b: Floats | undefined): boolean =>
  a.handle !== b?.handle ||
  a.byteOffset !== b.byteOffset ||
  a.shape.some((n, d) => n !== 1 && a.strides[d] !== b.strides[d]);
