/**
 * The Pokémon from which teams are drawn: twelve of the first generation, each with moves that are
 * usual for it.
 */
import type { Random } from '../../src/index.ts';

const roster: Readonly<Record<string, readonly [string, string, string, string]>> = {
  Tauros: ['Body Slam', 'Hyper Beam', 'Blizzard', 'Earthquake'],
  Snorlax: ['Body Slam', 'Earthquake', 'Surf', 'Rest'],
  Starmie: ['Surf', 'Thunderbolt', 'Blizzard', 'Recover'],
  Zapdos: ['Thunderbolt', 'Drill Peck', 'Thunder Wave', 'Agility'],
  Rhydon: ['Earthquake', 'Rock Slide', 'Body Slam', 'Substitute'],
  Exeggutor: ['Psychic', 'Sleep Powder', 'Stun Spore', 'Mega Drain'],
  Lapras: ['Blizzard', 'Thunderbolt', 'Body Slam', 'Sing'],
  Charizard: ['Fire Blast', 'Slash', 'Earthquake', 'Swords Dance'],
  Venusaur: ['Razor Leaf', 'Body Slam', 'Sleep Powder', 'Swords Dance'],
  Gengar: ['Thunderbolt', 'Night Shade', 'Hypnosis', 'Mega Drain'],
  Jolteon: ['Thunderbolt', 'Double Kick', 'Thunder Wave', 'Pin Missile'],
  Golem: ['Earthquake', 'Rock Slide', 'Body Slam', 'Explosion'],
};

export const TEAM = 3;

const every = (value: number) => ({
  hp: value,
  atk: value,
  def: value,
  spa: value,
  spd: value,
  spe: value,
});

/** Draws a team of three different Pokémon, in the form that the simulator requires. */
export function drawTeam(random: Random): object[] {
  const names = Object.keys(roster);
  return Array.from({ length: TEAM }, () => {
    const [species] = names.splice(random.below(names.length), 1);
    return {
      name: species,
      species,
      moves: roster[species!],
      level: 100,
      ability: 'No Ability',
      item: '',
      nature: '',
      gender: '',
      evs: every(255),
      ivs: every(30),
    };
  });
}
