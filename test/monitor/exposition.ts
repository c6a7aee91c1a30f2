/** A strict reader of Prometheus's text exposition format, version 0.0.4. */
export interface Metric {
  type: string;
  help: string;
  samples: { labels: Record<string, string>; value: number }[];
}

/**
 * Throws for a line outside the format, a sample before its TYPE, a repeated name, and repeated
 * labels.
 */
export function readExposition(text: string): Map<string, Metric> {
  if (!text.endsWith('\n')) throw new Error('the last line must end');
  const metrics = new Map<string, Metric>();
  let help = '';
  for (const line of text.slice(0, -1).split('\n')) {
    const told = /^# HELP (\S+) (.*)$/.exec(line);
    if (told) {
      help = told[2] as string;
      continue;
    }
    const typed = /^# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge)$/.exec(line);
    if (typed) {
      const [, name = '', type = ''] = typed;
      if (metrics.has(name)) throw new Error(`${name} twice`);
      metrics.set(name, { type, help, samples: [] });
      continue;
    }
    const sample = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (NaN|[+-]Inf|-?\d\S*)$/.exec(line);
    const metric = metrics.get(sample?.[1] ?? '');
    if (!sample || !metric) throw new Error(`no such line: ${line}`);
    const labels: Record<string, string> = {};
    let rest = sample[2] ?? '';
    while (rest !== '') {
      const pair = /^([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/.exec(rest);
      if (!pair) throw new Error(`no such labels: ${line}`);
      const [whole, name = '', value = ''] = pair;
      labels[name] = value.replaceAll(/\\(.)/g, (_, of: string) => (of === 'n' ? '\n' : of));
      rest = rest.slice(whole.length);
    }
    const key = JSON.stringify(labels);
    if (metric.samples.some((each) => JSON.stringify(each.labels) === key))
      throw new Error(`twice: ${line}`);
    const value = sample[3]?.replace('Inf', 'Infinity');
    metric.samples.push({ labels, value: Number(value) });
  }
  return metrics;
}
