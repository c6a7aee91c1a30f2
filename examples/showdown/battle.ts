/**
 * A battle of three Pokémon against three as an environment. The learner plays against a player
 * that chooses at random. An action is a move, or a switch to another Pokémon of the team, and the
 * mask says which of them are legal now. The return of an episode is the lead of health at its end,
 * plus 1 for a win or minus 1 for a loss. So it is above 0 if the learner won.
 */
import type { Environment, Step } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';
import { allowed, CHOICES, LOOK, lead, look } from './sight.ts';
import { type Battle, showdown } from './simulator.ts';
import { drawTeam } from './teams.ts';

const { Battle: NewBattle } = await showdown();
const WORD = 2 ** 16;

export default class Showdown implements Environment<number> {
  readonly observationSpace = { shape: [LOOK] } as const;
  /** four moves, then the other two Pokémon of the team */
  readonly actionSpace = { n: CHOICES } as const;
  readonly maxEpisodeSteps = 200;
  /** draws the teams and the other player's choices */
  #random = new Random(0);
  #battle: Battle | null = null;

  /** the current battle, which may have ended */
  get battle(): Battle {
    if (!this.#battle) throw new Error('no battle has begun: call reset(seed) first');
    return this.#battle;
  }

  reset(seed: number): number[] {
    this.close();
    this.#random = new Random(seed);
    const random = this.#random;
    const words = Array.from({ length: 4 }, () => random.below(WORD));
    this.#battle = new NewBattle({ formatid: 'gen1customgame', seed: words });
    this.#battle.setPlayer('p1', { name: 'learner', team: drawTeam(random) });
    this.#battle.setPlayer('p2', { name: 'random', team: drawTeam(random) });
    return look(this.#battle);
  }

  /** Returns for each action whether it is legal now. */
  actionMask(): readonly boolean[] {
    return allowed(this.battle);
  }

  /** Plays an action. Throws if the action is not legal. */
  step(action: number): Step {
    const { battle } = this;
    const before = lead(battle);
    if (!allowed(battle)[action]) throw new Error(`action ${action} is not legal in this battle`);
    this.#choose('p1', action < 4 ? `move ${this.#moveNumber(action)}` : `switch ${action - 2}`);
    this.#answer();
    const obs = look(battle);
    const end = battle.ended ? (battle.winner === 'learner' ? 1 : battle.winner ? -1 : 0) : 0;
    return { obs, reward: lead(battle) - before + end, terminated: battle.ended };
  }

  close(): void {
    this.#battle?.destroy();
    this.#battle = null;
  }

  /** Plays the other player's choices until the learner must choose again or the battle is over. */
  #answer(): void {
    const { battle } = this;
    const [me, other] = battle.sides;
    while (!battle.ended && me.isChoiceDone()) {
      const asked = other.activeRequest;
      if (!asked) throw new Error('the simulator asks nobody');
      const moves = asked.forceSwitch ? [] : (asked.active?.[0]?.moves ?? []);
      const choices = moves.flatMap(({ disabled }, i) => (disabled ? [] : [`move ${i + 1}`]));
      if (choices.length === 0)
        choices.push(
          ...other.pokemon.flatMap(({ fainted }, i) =>
            i > 0 && !fainted ? [`switch ${i + 1}`] : [],
          ),
        );
      this.#choose('p2', choices[this.#random.below(choices.length)] ?? 'default');
    }
  }

  #choose(side: 'p1' | 'p2', choice: string): void {
    if (!this.battle.choose(side, choice))
      throw new Error(`the simulator refused '${choice}' of ${side}`);
  }

  /**
   * Returns the number of a move for the simulator. If only one move is possible, its number is 1.
   */
  #moveNumber(chosen: number): number {
    return this.battle.sides[0].activeRequest?.active?.[0]?.moves.length === 1 ? 1 : chosen + 1;
  }
}
