/** temporary: one process, no child. */
import { Random } from '../../src/index.ts';
import { Calling, hearAll } from './calling.ts';
import { doorOn } from './door.ts';
import { callText } from './values.ts';
hearAll();
const kind = await doorOn('host:0');
const [seed, from, to] = process.argv.slice(2).map(Number) as [number, number, number];
const calling = new Calling(kind);
const t = performance.now();
const seen = new Map<string, [number, string]>();
for (let n = from; n < to; n++) {
  const call = kind.draw(new Random(seed, n));
  if (process.env.SAY) console.error(n, callText(call).slice(0, 300));
  const b = performance.now();
  const fault = await calling.call(call);
  const took = performance.now() - b;
  if (took > 300) console.log('slow', took.toFixed(0), n, callText(call).slice(0, 200));
  if (fault) {
    const key = fault.text.replace(/\d+/g, '#').slice(0, 90);
    const s = seen.get(key);
    if (s) s[0]++;
    else seen.set(key, [1, `#${n} ${callText(call).slice(0, 300)}\n      ${fault.text}`]);
    await calling.fresh();
  }
}
console.log(calling.counts, ((performance.now() - t) / 1000).toFixed(1), 's');
for (const [c, text] of [...seen.values()].sort((a, b) => b[0] - a[0])) console.log(c, text);
if (process.env.FORMS) {
  const by = new Map<string, [number, number]>();
  for (const [form, [a, b]] of calling.forms) { const k = form.replace(/^w\.\w+/, 'w.*'); const e = by.get(k) ?? [0, 0]; by.set(k, [e[0] + a, e[1] + b]); }
  console.log([...by].filter(([, [a, b]]) => a > 8 && b / a < 0.04).map(([f, [a, b]]) => `${f} ${b}/${a}`).join('\n'));
}
process.exit(0);
