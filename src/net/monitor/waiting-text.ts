/** Says in a sentence who waits for whom, from the times of a tick's stages. */
import type { StageSeconds } from '../../engine/pipeline/watch.ts';

/**
 * If at least this share of the slots is free, the learner lacks batches, whatever the stages took.
 */
const MOSTLY = 0.5;

/** Formats seconds in a suitable unit: '3.2 ms'. */
export function duration(seconds: number): string {
  const [value, unit] =
    seconds >= 1 ? [seconds, 's'] : seconds >= 1e-3 ? [seconds * 1e3, 'ms'] : [seconds * 1e6, 'µs'];
  return `${value >= 100 ? Math.round(value) : value.toPrecision(2)} ${unit}`;
}

/** Why the learner waits, by the stage that takes longest. */
const slow: Readonly<Record<string, string>> = {
  queued: 'a request has waited there for',
  pack: 'drawing and packing the rows takes',
  submit: 'handing the copy to the device takes',
  copy: 'the copy to the device takes',
};

export interface Waits {
  stages: Readonly<Record<string, StageSeconds>> | null;
  /** what the next batch waits for, as reported by the pipeline */
  waitingFor: string;
  /** 0 to 1: share of slots that were free lately */
  free: number;
  /** how often collectors waited for the limiter since the previous sample */
  heldBack: number;
  /** state of hosts on other machines as text, null without such hosts */
  hosts?: string | null;
}

export function whoWaits({ hosts = null, ...waits }: Waits): string {
  // The state of hosts is omitted if the pipeline's text already contains it.
  const named = hosts === null || waits.waitingFor.includes(hosts);
  return `${whoWaitsHere(waits)}${named ? '' : ` On other machines: ${hosts.replace(/^rows: /, '')}.`}`;
}

function whoWaitsHere({ stages, waitingFor, free, heldBack }: Waits): string {
  if (stages === null) return 'No tick has ended yet.';
  const at = (name: string) => (stages[name] as StageSeconds).p50;
  const [total, learner] = [at('total'), at('hot') + at('launch') + at('learn')];
  const [longest] = Object.keys(slow).sort((a, b) => at(b) - at(a)) as [string];
  const of = `of the ${duration(total)} from request to end`;
  const held = heldBack > 0 ? ' Collectors wait too: the limiter holds them back.' : '';
  if (free >= MOSTLY && waitingFor !== 'nothing')
    return `The learner waits: ${Math.round(free * 100)} % of the slots are free, since batches wait for ${waitingFor}.${held}`;
  if (learner >= at(longest))
    return `Batches wait for the learner: ${of}, ${duration(learner)} are its queue and its update.${held}`;
  return `The learner waits for batches: ${of}, ${slow[longest]} ${duration(at(longest))}.${held}`;
}
