/** What rows.node offers for talking with a child process: two pipes whose waiting ends. Only child.ts calls this. */
import { loadAddon } from '../../../base/addon.ts';

export type ChildHandle = { readonly handleOf: 'child' };

export interface ChildAddon {
  /** pipes that hold so many bytes; out: the descriptors that the child reads from, and writes to */
  openChild(bytes: number, out: Int32Array): ChildHandle;
  /** the child has them now: they close here, and the child is ended with the handle */
  childStarted(child: ChildHandle, pid: number): void;
  /** it ended by itself */
  childGone(child: ChildHandle): void;
  /** what it reads from has ended */
  endWriting(child: ChildHandle): void;
  closeChild(child: ChildHandle): void;
  /** how many bytes, 0 when so many milliseconds were not enough, −1 when the other end is closed */
  readChild(child: ChildHandle, into: Uint8Array, from: number, milliseconds: number): number | undefined;
  writeChild(child: ChildHandle, bytes: Uint8Array, from: number, milliseconds: number): number | undefined;
}

let addon: ChildAddon | undefined;

export function childAddon(): ChildAddon {
  addon ??= loadAddon<ChildAddon>('rows');
  return addon;
}
