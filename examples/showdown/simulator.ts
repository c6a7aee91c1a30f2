/** Pokémon Showdown's simulator, in this thread: what the example uses of the package @pkmn/sim. */

export type Stat = 'atk' | 'def' | 'spa' | 'spd' | 'spe' | 'accuracy' | 'evasion';
export type Status = '' | 'brn' | 'par' | 'slp' | 'frz' | 'psn' | 'tox' | 'fnt';

export interface Pokemon {
  readonly name: string;
  readonly hp: number;
  readonly maxhp: number;
  readonly fainted: boolean;
  readonly status: Status;
  readonly types: readonly string[];
  readonly boosts: Readonly<Record<Stat, number>>;
  /** of the first generation: with boosts, paralysis and burns */
  readonly modifiedStats?: Readonly<Record<'atk' | 'def' | 'spa' | 'spd' | 'spe', number>>;
  readonly moveSlots: readonly {
    readonly id: string;
    readonly pp: number;
    readonly maxpp: number;
  }[];
}

/** What a side is asked; null where the battle is over. */
export interface Question {
  readonly wait?: boolean;
  /** the active one fainted: another must come */
  readonly forceSwitch?: readonly boolean[];
  readonly active?: readonly {
    readonly moves: readonly { readonly id: string; readonly disabled?: boolean }[];
    readonly trapped?: boolean;
  }[];
}

export interface Side {
  readonly id: 'p1' | 'p2';
  /** the active one first; 'switch 2' is the second one */
  readonly pokemon: readonly Pokemon[];
  readonly activeRequest: Question | null;
  /** it has chosen, or is asked nothing */
  isChoiceDone(): boolean;
}

export interface Move {
  readonly name: string;
  readonly type: string;
  readonly category: 'Physical' | 'Special' | 'Status';
  readonly basePower: number;
  /** of what always does the same damage */
  readonly damage: number | 'level' | null;
  /** percent; true: it never misses */
  readonly accuracy: number | true;
}

export interface Dex {
  readonly moves: { get(id: string): Move };
  readonly species: { get(name: string): { readonly types: readonly string[] } };
  /** powers of two: 1 is twice the damage */
  getEffectiveness(type: string, target: readonly string[]): number;
  /** false: it does nothing to the target */
  getImmunity(type: string, target: readonly string[]): boolean;
}

export interface Battle {
  readonly sides: readonly [Side, Side];
  readonly ended: boolean;
  readonly winner?: string;
  readonly turn: number;
  readonly log: readonly string[];
  readonly dex: Dex;
  setPlayer(id: Side['id'], player: { name: string; team: readonly object[] }): void;
  /**
   * Once both have chosen what they were asked, the battle goes on. false: the choice is not
   * allowed.
   */
  choose(id: Side['id'], choice: string): boolean;
  destroy(): void;
}

interface Simulator {
  readonly Battle: new (options: { formatid: string; seed: readonly number[] }) => Battle;
}

/**
 * Rejects with what to install where the package is missing. It takes a second or two: 50 MB of
 * rules and data.
 */
export async function showdown(): Promise<Simulator> {
  // It is no dependency, so its types are not there either.
  const name: string = '@pkmn/sim';
  try {
    return (await import(name)) as Simulator;
  } catch (error) {
    if ((error as { code?: string }).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new Error(
      'the battles need the package @pkmn/sim: npm install --no-save @pkmn/sim@0.10.11',
      {
        cause: error,
      },
    );
  }
}
