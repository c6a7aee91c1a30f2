/** The last forward of a workspace, by which a backward that does not belong to it is rejected. */

import { stateError } from '../../base/errors.ts';
import type { Tensor } from '../../device/device.ts';

type Floats = Tensor<'float32'>;
type Parameters = readonly (readonly Floats[])[];

/**
 * Two forwards in one workspace are valid, so only backward checks. It compares places in memory,
 * because views are new objects each time.
 */
export class LastPass {
  #pass: { readonly input: Floats; readonly parameters: Parameters } | null = null;
  /** backward has overwritten outputGradient, which has not been read since */
  #spent = false;

  /** Forgets the last pass before a forward, which may fail half way. */
  forget(): void {
    this.#pass = null;
  }
  /** Records a pass after its forward. */
  forward(input: Floats, parameters: Parameters): void {
    this.#pass = { input, parameters };
    this.#spent = false;
  }
  /** Allows another backward, because the caller may write to outputGradient. */
  renew(): void {
    this.#spent = false;
  }
  /** Throws ERR_HOTSLOT_STATE_EMPTY unless a backward may go through this pass now. */
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
