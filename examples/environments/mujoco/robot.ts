/**
 * A robot in MuJoCo as an environment. The option `robot` chooses it, for example
 * `{ robot: 'HalfCheetah' }`.
 */
import type { Environment, EnvironmentContext, Step } from '../../../src/entries/collect.ts';
import { Random } from '../../../src/index.ts';
import { type MainModule, type MjData, type MjModel, mujoco } from './engine.ts';
import { type Rules, robots } from './rules.ts';

export interface RobotOptions {
  robot: string;
}

export class Robot implements Environment<ArrayLike<number>> {
  readonly observationSpace;
  readonly actionSpace;
  readonly maxEpisodeSteps = 1000;
  readonly model: MjModel;
  readonly data: MjData;
  readonly #engine: MainModule;
  readonly #rules: Rules;
  /** seconds that an environment step simulates */
  readonly #dt: number;
  readonly #first: Float64Array;
  readonly #obs: number[] = [];

  constructor(engine: MainModule, rules: Rules) {
    this.#engine = engine;
    this.#rules = rules;
    this.model = engine.MjModel.from_xml_string(rules.model);
    this.data = new engine.MjData(this.model);
    const { model, data } = this;
    this.#first = data.qpos.slice();
    this.#dt = model.opt.timestep * rules.frameSkip;
    const [low, high] = [0, 1].map((end) =>
      Array.from({ length: model.nu }, (_, i) => model.actuator_ctrlrange[2 * i + end] as number),
    ) as [number[], number[]];
    this.actionSpace = { shape: [model.nu], low, high };
    this.observationSpace = { shape: [this.#show().length] };
  }

  /**
   * Begins an episode with a state that differs from the initial state by noise in every element.
   */
  reset(seed: number): readonly number[] {
    const { model, data } = this;
    const { noise, speeds } = this.#rules;
    const random = new Random(seed);
    this.#engine.mj_resetData(model, data);
    const off = () => random.between(-noise, noise);
    data.qpos.set(this.#first.map((value) => value + off()));
    data.qvel.set(data.qvel.map(() => (speeds === 'normal' ? noise * random.normal() : off())));
    return this.begin();
  }

  /** Begins an episode with the state that the caller has written to `data`. */
  begin(): readonly number[] {
    this.#engine.mj_forward(this.model, this.data);
    return this.#show();
  }

  step(action: ArrayLike<number>): Step {
    const { model, data } = this;
    const { frameSkip, place, reward, healthy } = this.#rules;
    const before = place(model, data);
    let effort = 0;
    const control = data.ctrl;
    for (let i = 0; i < model.nu; i++) {
      const value = action[i] as number;
      control[i] = value;
      effort += value * value;
    }
    for (let frame = 0; frame < frameSkip; frame++) this.#engine.mj_step(model, data);
    // mj_step() does not compute the forces on bodies, which observations and rewards need.
    this.#engine.mj_rnePostConstraint(model, data);
    const speed = (place(model, data) - before) / this.#dt;
    return {
      obs: this.#show(),
      reward: reward(data, { speed, effort }),
      terminated: !healthy(data),
    };
  }

  /** Frees MuJoCo's memory, which JavaScript does not collect as garbage. */
  close(): void {
    this.data.delete();
    this.model.delete();
  }

  #show(): readonly number[] {
    this.#obs.length = 0;
    this.#rules.show(this.data, this.#obs);
    return this.#obs;
  }
}

export default async ({ options }: EnvironmentContext<RobotOptions>): Promise<Robot> => {
  const rules = robots[options?.robot];
  if (!rules)
    throw new RangeError(
      `robot must be one of ${Object.keys(robots).join(', ')}, got '${options?.robot}'`,
    );
  return new Robot(await mujoco(), rules);
};
