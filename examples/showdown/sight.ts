/**
 * Observation of a battle: the numbers that a player sees. They describe the own team, the other
 * team's active Pokémon, and how many Pokémon of each team are left.
 */
import type { Battle, Dex, Pokemon, Stat, Status } from './simulator.ts';
import { TEAM } from './teams.ts';

const stats: readonly Stat[] = ['atk', 'def', 'spa', 'spe', 'accuracy', 'evasion'];
const statuses: readonly (readonly Status[])[] = [
  ['brn'],
  ['par'],
  ['slp'],
  ['frz'],
  ['psn', 'tox'],
];
const MOVES = 4;
/**
 * number of a player's choices: the moves of the active Pokémon, and switches to the other Pokémon
 * of the team
 */
export const CHOICES = MOVES + TEAM - 1;

const health = ({ hp, maxhp }: Pokemon) => hp / maxhp;
const alive = (team: readonly Pokemon[]) => team.filter(({ fainted }) => !fainted).length;

/** Returns an active Pokémon's health, status and boosts. */
const standing = (pokemon: Pokemon): number[] => [
  health(pokemon),
  ...statuses.map((names) => Number(names.includes(pokemon.status))),
  ...stats.map((stat) => pokemon.boosts[stat] / 6),
];

/** Returns the factor of a type's damage on a Pokémon, from 0 to 4. */
const effect = (dex: Dex, type: string, { types }: Pokemon): number =>
  dex.getImmunity(type, types) ? 2 ** dex.getEffectiveness(type, types) : 0;

/**
 * Returns the expected damage of a move as a share of the target's remaining health, at most 1.5.
 * It uses the damage formula of the first generation at level 100.
 */
function strength(dex: Dex, id: string, from: Pokemon, to: Pokemon): number {
  const { type, category, basePower, accuracy, damage } = dex.moves.get(id);
  const works = effect(dex, type, to);
  if (category === 'Status' || works === 0) return 0;
  const [a, d] = category === 'Physical' ? (['atk', 'def'] as const) : (['spa', 'spd'] as const);
  const own = from.types.includes(type) ? 1.5 : 1;
  const points = damage
    ? 100
    : ((42 * basePower * statOf(from, a)) / statOf(to, d) / 50 + 2) * own * works * 0.925;
  return Math.min(1.5, (points / Math.max(to.hp, 1)) * (accuracy === true ? 1 : accuracy / 100));
}

const statOf = ({ modifiedStats }: Pokemon, stat: 'atk' | 'def' | 'spa' | 'spd' | 'spe'): number =>
  modifiedStats?.[stat] ?? 1;

const strongest = (dex: Dex, from: Pokemon, to: Pokemon): number =>
  Math.max(...from.moveSlots.map(({ id }) => strength(dex, id, from, to)));

/**
 * Returns the largest factor of damage that one of the attacker's types has on the other Pokémon.
 */
const threat = (dex: Dex, from: Pokemon, to: Pokemon): number =>
  Math.max(...from.types.map((type) => effect(dex, type, to)));

const faster = (mine: Pokemon, theirs: Pokemon): number =>
  Number(statOf(mine, 'spe') > statOf(theirs, 'spe'));

/** Returns for each choice of the first player whether it is allowed. */
export function allowed({ sides: [{ pokemon, activeRequest: asked }] }: Battle): boolean[] {
  const active = asked?.active?.[0];
  const slots = pokemon[0]!.moveSlots;
  // A Pokémon that sleeps, is frozen or must repeat a move has one choice. The simulator may give
  // this choice a name that is not one of the moves.
  const single = active?.moves.length === 1;
  const moves = Array.from({ length: MOVES }, (_, i) => {
    if (!active || asked?.forceSwitch) return false;
    if (single)
      return (
        slots[i]?.id === active.moves[0]!.id ||
        (i === 0 && !slots.some(({ id }) => id === active.moves[0]!.id))
      );
    return active.moves[i] !== undefined && !active.moves[i].disabled;
  });
  const others = pokemon.slice(1).map(({ fainted }) => !fainted && !active?.trapped);
  return [...moves, ...others];
}

export const LOOK = 2 * 12 + MOVES * 4 + (TEAM - 1) * 4 + 5;

/** Returns the observation, an array of LOOK numbers. */
export function look(battle: Battle): number[] {
  const { dex, sides } = battle;
  const [[mine, ...others], [theirs]] = [sides[0].pokemon, sides[1].pokemon] as [
    Pokemon[],
    Pokemon[],
  ];
  const choices = allowed(battle);
  const moves = Array.from({ length: MOVES }, (_, i) => {
    const slot = mine!.moveSlots[i];
    if (!slot) return [0, 0, 0, 0];
    const isStatus = dex.moves.get(slot.id).category === 'Status';
    return [
      Number(choices[i]),
      strength(dex, slot.id, mine!, theirs!),
      Number(isStatus),
      slot.pp / slot.maxpp,
    ];
  });
  const rest = others.map((other, i) => [
    Number(choices[MOVES + i]),
    health(other),
    strongest(dex, other, theirs!),
    threat(dex, theirs!, other),
  ]);
  return [
    ...standing(mine!),
    ...standing(theirs!),
    ...moves.flat(),
    ...rest.flat(),
    threat(dex, theirs!, mine!),
    alive(sides[0].pokemon) / TEAM,
    alive(sides[1].pokemon) / TEAM,
    faster(mine!, theirs!),
    Number(sides[0].activeRequest?.forceSwitch !== undefined),
  ];
}

/**
 * Returns the difference of the teams' remaining health, from −1 to 1. It is positive if the first
 * player leads.
 */
export function lead({ sides }: Battle): number {
  const [mine, theirs] = sides.map(({ pokemon }) =>
    pokemon.reduce((sum, one) => sum + health(one), 0),
  );
  return (mine! - theirs!) / TEAM;
}
