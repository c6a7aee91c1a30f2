/**
 * The part of Pokémon Showdown's simulator, the package @pkmn/sim, that the example uses. It runs
 * in this thread.
 */

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
  /** stats with boosts, paralysis and burns applied, only in the first generation */
  readonly modifiedStats?: Readonly<Record<'atk' | 'def' | 'spa' | 'spd' | 'spe', number>>;
  readonly moveSlots: readonly {
    readonly id: string;
    readonly pp: number;
    readonly maxpp: number;
  }[];
}

/** A choice that the simulator requests from a side. It is null after the battle is over. */
export interface Question {
  readonly wait?: boolean;
  /** true for a fainted active Pokémon, which must be replaced */
  readonly forceSwitch?: readonly boolean[];
  readonly active?: readonly {
    readonly moves: readonly { readonly id: string; readonly disabled?: boolean }[];
    readonly trapped?: boolean;
  }[];
}

export interface Side {
  readonly id: 'p1' | 'p2';
  /** the team with the active Pokémon first. 'switch 2' names the second one */
  readonly pokemon: readonly Pokemon[];
  readonly activeRequest: Question | null;
  /** returns true if the side has chosen, or has nothing to choose */
  isChoiceDone(): boolean;
}

export interface Move {
  readonly name: string;
  readonly type: string;
  readonly category: 'Physical' | 'Special' | 'Status';
  readonly basePower: number;
  /** damage of a move that always does the same damage, otherwise null */
  readonly damage: number | 'level' | null;
  /** percent, or true if the move never misses */
  readonly accuracy: number | true;
}

export interface Dex {
  readonly moves: { get(id: string): Move };
  readonly species: { get(name: string): { readonly types: readonly string[] } };
  /** returns the effectiveness as an exponent of 2. For example, 1 means twice the damage */
  getEffectiveness(type: string, target: readonly string[]): number;
  /** returns false if moves of this type do nothing to the target */
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
   * Makes a choice for a side. The battle continues after both sides have made the choices that
   * were requested. Returns false if the choice is not allowed.
   */
  choose(id: Side['id'], choice: string): boolean;
  destroy(): void;
}

interface Simulator {
  readonly Battle: new (options: { formatid: string; seed: readonly number[] }) => Battle;
}

/**
 * Returns the simulator. Loading its 50 MB of rules and data takes a second or two. If the package
 * is missing, rejects with an error that says what to install.
 */
export async function showdown(): Promise<Simulator> {
  // The package is not a dependency, so its types may be missing. A name of type string keeps the
  // compiler from looking for them.
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
