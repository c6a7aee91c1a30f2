/** The messages between a storm's director and its world. */
import type { FaultKind } from './schedule.ts';

export type ToWorld =
  | {
      readonly fault: FaultKind;
      readonly id: number;
      readonly pick: number;
      readonly size: number;
      readonly ms: number;
    }
  /**
   * ends the life: everything is closed, checked for leaks and opened again ('life'), or the
   * process ends after that ('process')
   */
  | { readonly end: 'life' | 'process' };

export type FromWorld =
  | { readonly up: number; readonly monitor: string }
  /** a fault was done: `to` is its target, or null if there was none */
  | { readonly done: number; readonly to: string | null }
  | { readonly restored: 'steps' | 'rows'; readonly tick: number }
  | { readonly saved: 'steps' | 'rows'; readonly tick: number }
  | {
      readonly beat: string;
      readonly progress: Readonly<Record<string, number>>;
      readonly waits: string;
    }
  | { readonly wrong: string }
  /** a life is over and everything is closed: what it counted */
  | { readonly over: number; readonly facts: Readonly<Record<string, number>> };

export interface WorldOptions {
  readonly url: string;
  readonly folder: string;
  readonly seed: number;
  readonly device: string;
  /** whether the world prints each fault on stderr */
  readonly verbose?: boolean;
}
