/** The state of a run for Prometheus: the text exposition format, version 0.0.4. */

import { gateNames } from '../../engine/pipeline/watch.ts';
import type { Curve } from './curve.ts';
import type { RemoteNow } from './remote-now.ts';
import type { Now } from './sampling.ts';

export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

type Labels = Readonly<Record<string, string | number>>;
type Sample = readonly [labels: Labels, value: number];

const escaped = (text: string) => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
const quoted = (text: string) => `"${escaped(text).replaceAll('"', '\\"')}"`;
const number = (value: number) =>
  Number.isFinite(value) ? `${value}` : Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf';

class Text {
  text = '';

  /** Adds a metric, but only if it has samples. */
  put(kind: 'counter' | 'gauge', name: string, help: string, samples: readonly Sample[]): this {
    if (samples.length === 0) return this;
    this.text += `# HELP hotslot_${name} ${escaped(help)}\n# TYPE hotslot_${name} ${kind}\n`;
    for (const [labels, value] of samples) {
      const pairs = Object.entries(labels).map(([label, of]) => `${label}=${quoted(`${of}`)}`);
      this.text += `hotslot_${name}${pairs.length > 0 ? `{${pairs.join(',')}}` : ''} ${number(value)}\n`;
    }
    return this;
  }
  one(
    kind: 'counter' | 'gauge',
    name: string,
    help: string,
    value: number | null | undefined,
  ): this {
    return this.put(kind, name, help, value === null || value === undefined ? [] : [[{}, value]]);
  }
}

const states = ['Free', 'Requested', 'Packed', 'Submitted', 'Ready', 'Replaying'];

/**
 * Adds metrics of collectors on other machines. It omits metrics of single hosts, because thousands
 * of hosts with different names may come and go.
 */
function putRemote(out: Text, remote: RemoteNow, collectors: Now['collectors']): void {
  const spread = (
    { p50, p99 }: { p50: number | null; p99: number | null },
    unit: number,
  ): Sample[] =>
    p50 === null || p99 === null
      ? []
      : [
          [{ quantile: '0.5' }, p50 / unit],
          [{ quantile: '0.99' }, p99 / unit],
        ];
  out
    .one(
      'gauge',
      'remote_connected',
      '1 while the server of the collector hosts is connected.',
      Number(remote.connected),
    )
    .put(
      ...(['gauge', 'remote_hosts', 'Collector hosts by their state.'] as const),
      Object.entries(remote.states).map(([state, count]) => [{ state }, count]),
    )
    .one(
      'counter',
      'remote_steps_total',
      'Environment steps that collector hosts report.',
      collectors?.steps,
    )
    .one(
      'counter',
      'remote_episodes_total',
      'Episodes that collector hosts report.',
      collectors?.episodes,
    )
    .one('counter', 'remote_rows_total', 'Rows received from collector hosts.', remote.rows)
    .one('gauge', 'remote_rows_per_second', 'Rows received per second.', remote.rowsPerSecond)
    .one(
      'gauge',
      'remote_bytes_per_second',
      'Bytes of rows received per second.',
      remote.bytesPerSecond,
    )
    .put(
      ...([
        'gauge',
        'remote_lag_seconds',
        'From sending rows to having them in the buffer.',
      ] as const),
      spread(remote.lag, 1000),
    )
    .put(
      ...([
        'gauge',
        'remote_version_lag',
        'Age in versions of the weights that chose the actions of new rows.',
      ] as const),
      spread(remote.versionLag, 1),
    )
    .one('counter', 'remote_duplicates_total', 'Messages without new rows.', remote.duplicates)
    .one('counter', 'remote_gaps_total', 'Messages that lacked rows before them.', remote.gaps)
    .one(
      'counter',
      'remote_stale_rows_total',
      'Rows dropped because their weights are too old.',
      remote.stale,
    )
    .one('counter', 'remote_refused_total', 'Messages of other runs.', remote.refused)
    .one('counter', 'remote_lost_rows_total', 'Rows that no host has any more.', remote.lost)
    .one(
      'gauge',
      'remote_limiter_share',
      'Share of time that the limiter held rows back.',
      remote.gated,
    )
    .one(
      'gauge',
      'remote_window_full_share',
      'Share of time that hosts had a full window.',
      remote.windowFull,
    );
}

export function metricsOf(now: Now, curves: ReadonlyMap<string, Curve>, clients: number): string {
  const { slots, stages, buffer, collectors, remote, devices, checkpoint } = now;
  const out = new Text();
  out
    .one('counter', 'ticks_total', 'Ticks that the pipeline has finished.', now.finished)
    .one('gauge', 'running', '1 while run() is under way.', Number(now.state === 'running'))
    .one('gauge', 'failed', '1 once the pipeline has failed.', Number(now.state === 'failed'))
    .one('gauge', 'weights_version', 'Version of the weights that was published last.', now.version)
    .put(
      ...([
        'gauge',
        'waiting',
        '1 for the cause that the next batch waits for, 0 for the others.',
      ] as const),
      // The labels are the gates' names, which are few. If texts were labels, each text would be a
      // separate series.
      gateNames.map((gate) => [{ for: gate }, Number(gate === now.gate)]),
    )
    .put(
      ...(['gauge', 'slots', 'Slots of the ring by their state.'] as const),
      states.map((state) => [{ state }, slots.filter((slot) => slot.state === state).length]),
    )
    .put(
      ...(['gauge', 'stage_seconds', 'Times of the stages of the newest ticks.'] as const),
      Object.entries(stages ?? {}).flatMap(([stage, { p50, p90 }]): Sample[] => [
        [{ stage, quantile: '0.5' }, p50],
        [{ stage, quantile: '0.9' }, p90],
      ]),
    )
    .one('gauge', 'buffer_size', 'Rows, or steps, that the buffer holds.', buffer?.size)
    .one('gauge', 'buffer_capacity', 'Rows, or steps, that the buffer can hold.', buffer?.capacity)
    .put(
      ...(['gauge', 'scalar', 'The latest number of each curve.'] as const),
      [...curves]
        .filter(([tag]) => !tag.startsWith('speed/'))
        .map(([tag, { latest }]) => [{ tag }, latest]),
    );
  const workers = collectors?.workers ?? [];
  const each = (of: (worker: (typeof workers)[number]) => number) =>
    workers.map((worker, i): Sample => [{ worker: i }, of(worker)]);
  const memory = devices.flatMap(({ name, memory }) =>
    memory ? [{ device: name, ...memory }] : [],
  );
  const [save] = checkpoint?.saved ?? [];
  if (remote) putRemote(out, remote, collectors);
  return out
    .put(
      ...(['counter', 'collector_steps_total', 'Environment steps.'] as const),
      each(({ steps }) => steps),
    )
    .put(
      ...(['counter', 'collector_episodes_total', 'Episodes that ended.'] as const),
      each(({ episodes }) => episodes),
    )
    .put(
      ...([
        'counter',
        'collector_waits_total',
        'Times that a collector waited for the limiter.',
      ] as const),
      each(({ waits }) => waits),
    )
    .put(
      ...(['gauge', 'device_memory_bytes', 'Memory of the device.'] as const),
      memory.map(({ device, total }) => [{ device }, total]),
    )
    .put(
      ...(['gauge', 'device_memory_free_bytes', 'Memory of the device that is free.'] as const),
      memory.map(({ device, free }) => [{ device }, free]),
    )
    .one(
      'counter',
      'checkpoints_total',
      'Checkpoints written while the monitor was open.',
      checkpoint?.count,
    )
    .one(
      'counter',
      'checkpoint_errors_total',
      'Checkpoints that failed meanwhile.',
      checkpoint?.errors,
    )
    .one('gauge', 'checkpoint_bytes', 'Size of the latest checkpoint.', save?.bytes)
    .one('gauge', 'checkpoint_seconds', 'Time that the latest checkpoint took.', save?.seconds)
    .one(
      'gauge',
      'checkpoint_timestamp_seconds',
      'When the latest checkpoint was written.',
      save && save.at / 1000,
    )
    .one('gauge', 'monitor_clients', 'Pages that are connected to this pipeline.', clients).text;
}
