/** The networks and parameters of a learner, and the optimizers that step them, from its description. */
import { describeValue } from '../../../base/checks.ts';
import type { Tensor } from '../../../device/device.ts';
import { Network } from '../../network/network.ts';
import { type Shape, sizeOf } from '../shapes.ts';
import { refuseRange, refuseType, userLine } from '../tape.ts';
import { Ensemble, Follower, Parameter } from './networks.ts';
import { OptimizerDescription } from './optimizers.ts';

type Floats = Tensor<'float32'>;

/** Parameters with a name: a network, an ensemble or a loose parameter, or a follower of one. */
export interface Holder {
  readonly name: string;
  /** null for a loose parameter */
  readonly network: Network | null;
  /** number of networks of an ensemble, or null */
  readonly members: number | null;
  readonly shape: Shape;
  readonly size: number;
  /** offset in the vector of all parameters, if `memory` is undefined */
  offset: number;
  readonly follower: Follower | null;
  /** memory outside of the vector */
  readonly memory: Floats | undefined;
}

/** Returns names as a list for an error. */
export const list = (names: readonly string[]): string => names.join(', ') || 'none';

/** Returns an object whose values have names. Throws a TypeError for another value. */
export const plain = (what: string, value: unknown): Readonly<Record<string, unknown>> => {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    refuseType(`learner: ${what} must be an object by name, got ${describeValue(value)}`);
  return value as Readonly<Record<string, unknown>>;
};

/** Names of the state that are not those of networks and parameters. */
const reserved = ['numbers', 'updates', 'generator', 'optimizers'];

/** Refuses a name that would make the names of a state ambiguous. */
function checkName(what: string, name: string): void {
  if (!/^[A-Za-z_]\w*$/.test(name) || reserved.includes(name))
    refuseType(
      `learner: ${what} cannot have the name '${name}'; a name has letters, digits and _, and ${reserved.join(', ')} are names in the state`,
    );
}

/** Returns the networks and parameters of a description. Followers are last. */
export function holdersOf(
  description: { readonly networks?: unknown; readonly parameters?: unknown },
  memory: Readonly<Record<string, Floats>>,
): Holder[] {
  const networks = plain('networks', description.networks ?? {});
  const parameters = plain('parameters', description.parameters ?? {});
  for (const name of Object.keys(networks)) checkName('a network', name);
  for (const name of Object.keys(parameters)) checkName('a parameter', name);
  const holders: Holder[] = [];
  const of = (
    name: string,
    network: Network,
    members: number | null,
    follower: Follower | null,
  ) => {
    const size = network.parameterCount * (members ?? 1);
    if (size === 0)
      refuseRange(`learner: network '${name}' has no parameters; write its ops as expressions`);
    const own = { shape: [size], size, offset: 0, follower, memory: memory[name] };
    holders.push({ name, network, members, ...own });
  };
  const followers: [string, Follower][] = [];
  for (const [name, given] of Object.entries(networks)) {
    if (given instanceof Network) of(name, given, null, null);
    else if (given instanceof Ensemble) of(name, given.network, given.members, null);
    else if (given instanceof Follower) followers.push([name, given]);
    else
      refuseType(
        `learner: networks.${name} must be a Network, ensemble(…), polyak(…) or copied(…), got ${describeValue(given)}`,
      );
  }
  for (const [name, given] of Object.entries(parameters)) {
    if (!(given instanceof Parameter))
      refuseType(`learner: parameters.${name} must be a parameter(…), got ${describeValue(given)}`);
    if (Object.hasOwn(networks, name))
      refuseType(`learner: '${name}' is a network and a parameter; give them two names`);
    const { shape } = given as Parameter;
    const size = sizeOf(shape);
    const own = { shape, size, offset: 0, follower: null, memory: undefined };
    holders.push({ name, network: null, members: null, ...own });
  }
  for (const [name, follower] of followers) {
    const source = holders.find(
      (each) => each.name === follower.of && !each.follower && each.network,
    );
    if (!source) {
      const names = holders
        .filter((each) => each.network && !each.follower)
        .map((each) => each.name);
      return refuseType(
        `learner: networks.${name} follows '${follower.of}', which is not a network here; networks: ${list(names)} (it is described at ${userLine(follower.made)})`,
      );
    }
    holders.push({ ...source, name, follower, memory: memory[name] });
  }
  return holders;
}

/** Returns the optimizers of a description, each with what it steps. */
export function groupsOf(holders: readonly Holder[], given: Readonly<Record<string, unknown>>) {
  const groups = Object.entries(given).map(([name, description]) => {
    if (!(description instanceof OptimizerDescription))
      return refuseType(
        `learner: optimizers.${name} must be adam(…), adamW(…) or sgd(…), got ${describeValue(description)}`,
      );
    const of = (description.of ?? [name]).map((each) => {
      const holder = holders.find((one) => one.name === each);
      if (!holder)
        return refuseType(
          `learner: optimizers.${name} steps '${each}', which is neither a network nor a parameter; declared: ${list(holders.map((one) => one.name))}`,
        );
      if (holder.follower)
        refuseType(
          `learner: optimizers.${name} steps '${each}', which follows '${holder.follower.of}'`,
        );
      return holder;
    });
    return { name, description, holders: of };
  });
  const all = groups.flatMap((group) => group.holders.map((holder) => ({ holder, group })));
  for (const [i, { holder, group }] of all.entries()) {
    const first = all.findIndex((each) => each.holder === holder);
    if (first !== i)
      refuseType(
        `learner: optimizers ${all[first]!.group.name} and ${group.name} both step '${holder.name}'`,
      );
  }
  return groups;
}
