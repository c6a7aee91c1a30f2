/**
 * Tests the entries of the package: what each exports, and that every type in a public declaration
 * is exported.
 */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  exports: Record<string, { types: string; default: string } | string>;
};
const doors = Object.entries(exports).filter(
  (entry): entry is [string, { types: string; default: string }] => {
    return typeof entry[1] !== 'string';
  },
);

/** Returns the exported names, types included, by the declaration file that defines them. */
function exported(types: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  const text = readFileSync(join(root, types), 'utf8');
  for (const [, names = '', from = ''] of text.matchAll(
    /export (?:type )?\{([^}]*)\} from '([^']+)'/g,
  )) {
    const file = normalize(join(root, dirname(types), from.replace(/\.[jt]s$/, '.d.ts')));
    const each = names.split(',').map((name) => name.trim().replace(/^type /, ''));
    found.set(file, [...(found.get(file) ?? []), ...each.filter((name) => name !== '')]);
  }
  return found;
}

const all = doors.flatMap(([, { types }]) => [...exported(types).values()].flat());

describe('entry points of the package', () => {
  it('have the expected paths, and the main entry point exports at most 35 values', async () => {
    expect(doors.map(([path]) => path)).to.deep.equal([
      '.',
      ...[
        'collect',
        'learner',
        'trace',
        'graph',
        'memory',
        'linop',
        'halo',
        'formats',
        'monitor',
        'remote',
        'ranks',
        'transfer',
      ].map((subject) => `./${subject}`),
    ]);
    const values = Object.keys(await import('hotslot'));
    expect(values).to.include.members([
      'ReplayBuffer',
      'ReplayPipeline',
      'CollectorPool',
      'WeightMailbox',
      'openDevice',
    ]);
    expect(values.length).to.be.at.most(35);
  });

  it('export each name once, and export no undefined value', async () => {
    expect(all.filter((name, i) => all.indexOf(name) !== i)).to.deep.equal([]);
    for (const [path] of doors) {
      const found = (await import(path.replace('.', 'hotslot'))) as Record<string, unknown>;
      expect(Object.keys(found), path).to.not.have.length(0);
      expect(Object.values(found).filter((value) => value === undefined)).to.deep.equal([]);
    }
  });

  it('export no class with an internal member', async () => {
    const internal = [
      'own',
      'making',
      'bells',
      'memory',
      'setCounters',
      'keep',
      'eagerly',
      'forget',
      'settle',
      'renewTransfer',
    ];
    const reachable: string[] = [];
    for (const [path] of doors)
      for (const [name, value] of Object.entries(await import(path.replace('.', 'hotslot')))) {
        let prototype: unknown = typeof value === 'function' ? (value.prototype as unknown) : null;
        for (
          ;
          prototype && prototype !== Object.prototype;
          prototype = Object.getPrototypeOf(prototype)
        )
          for (const key of Object.getOwnPropertyNames(prototype))
            if (internal.includes(key)) reachable.push(`${name}.${key}`);
      }
    expect(reachable).to.deep.equal([]);
  });

  it('export every type that a public declaration names', () => {
    // Base classes that users only see through their subclasses, and types that only postMessage()
    // transfers.
    const behind = [
      'Owner',
      'Handle',
      'HandleOwner',
      'CopyingTransferBackend',
      'Components',
      'Place',
    ];
    const declarations = readdirSync(join(root, 'dist/src'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.d.ts'))
      .map((name) => readFileSync(join(root, 'dist/src', name), 'utf8'));
    const own = new Set(
      declarations.flatMap((text) =>
        [
          ...text.matchAll(/^export (?:declare )?(?:abstract )?(?:class|interface|type) (\w+)/gm),
        ].map(([, name]) => name),
      ),
    );
    const missing: string[] = [];
    for (const [, { types }] of doors)
      for (const [file, names] of exported(types)) {
        const text = readFileSync(file, 'utf8').replaceAll(/\/\*[\s\S]*?\*\//g, '');
        const parts = text.matchAll(
          /^export (?:declare )?(?:abstract )?(?:class|interface|type|const|function|let) (\w+)([\s\S]*?)(?=^export |^declare |(?![\s\S]))/gm,
        );
        for (const [, name = '', body = ''] of parts)
          if (names.includes(name))
            for (const each of new Set(body.replaceAll(/'[^']*'/g, '').match(/\b[A-Z]\w+/g)))
              if (own.has(each) && !all.includes(each) && !behind.includes(each))
                missing.push(`${each}, by ${name}`);
      }
    expect(missing).to.deep.equal([]);
  });

  it('load no native addon when imported', () => {
    const files = doors.map(([, entry]) => join(root, entry.default));
    const script = `
      for (const file of ${JSON.stringify(files)}) await import(file);
      console.log(process.report.getReport().sharedObjects.filter((path) => path.endsWith('.node')).join());`;
    const said = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
      encoding: 'utf8',
    });
    expect(said.trim()).to.equal('');
  });
});
