/** What a storm's director and its world say to each other. */
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
   * the life ends: everything is closed, counted, and opened again; or the process ends behind it
   */
  | { readonly end: 'life' | 'process' };

export type FromWorld =
  | { readonly up: number; readonly monitor: string }
  /** a fault was done, to what; or there was nothing to do it to */
  | { readonly done: number; readonly to: string | null }
  | { readonly restored: 'steps' | 'rows'; readonly tick: number }
  | { readonly saved: 'steps' | 'rows'; readonly tick: number }
  | {
      readonly beat: string;
      readonly progress: Readonly<Record<string, number>>;
      readonly waits: string;
    }
  | { readonly wrong: string }
  /** a life is over and everything is closed: what there was to see */
  | { readonly over: number; readonly facts: Readonly<Record<string, number>> };

export interface WorldOptions {
  readonly url: string;
  readonly folder: string;
  readonly seed: number;
  readonly device: string;
  /** it says each fault on stderr */
  readonly verbose?: boolean;
}
