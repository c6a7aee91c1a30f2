/**
 * Tests checkAddress(): which URLs and logins it accepts, with which texts it rejects others, and
 * that no text contains a password.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { expect } from 'chai';
import { type AddressOptions, checkAddress } from '../../src/net/remote/address.ts';
import { refusal } from '../rig/refusal.ts';

const SECRET = 'open-sesame';
const check = (url: string, rest: Partial<AddressOptions> = {}) =>
  checkAddress({ env: {}, ...rest, url });
const refused = (url: unknown, rest: Partial<AddressOptions> = {}) =>
  refusal(() => check(url as string, rest));
const PEM = '-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n';

describe('checkAddress()', () => {
  it('returns host, port, TLS, database and socket path of a URL', () => {
    expect(check('redis://localhost')).to.deep.include({
      host: 'localhost',
      port: 6379,
      tls: false,
      database: 0,
      path: '',
    });
    expect(check('valkey://127.9.0.1:7000/3')).to.deep.include({
      host: '127.9.0.1',
      port: 7000,
      tls: false,
      database: 3,
    });
    expect(check('redis://[::1]:7000')).to.deep.include({ host: '::1', port: 7000 });
    expect(check('rediss://broker:6380')).to.deep.include({
      host: 'broker',
      port: 6380,
      tls: true,
      ca: undefined,
    });
    expect(check('valkeys://broker')).to.deep.include({ host: 'broker', tls: true });
    expect(check('unix:///run/redis%20one.sock')).to.deep.include({
      path: '/run/redis one.sock',
      tls: false,
    });
  });

  it('takes user and password from the options, the URL and the environment, in this order', () => {
    const who = (url: string, rest: Partial<AddressOptions> = {}) => {
      const { username, password } = check(url, rest);
      return [username, password()];
    };
    const env = { HOTSLOT_REDIS_PASSWORD: 'of-env' };
    expect(who('redis://localhost')).to.deep.equal([undefined, undefined]);
    expect(who('redis://ann@localhost', { env })).to.deep.equal(['ann', 'of-env']);
    expect(who('redis://ann:a%20%3A@localhost', { env })).to.deep.equal(['ann', 'a :']);
    expect(who('redis://:of-url@localhost')).to.deep.equal([undefined, 'of-url']);
    const all = { username: 'bob', password: 'of-option', env };
    expect(who('redis://ann:of-url@localhost', all)).to.deep.equal(['bob', 'of-option']);
    expect(who('unix://ann:of-url@/run/redis.sock')).to.deep.equal(['ann', 'of-url']);
  });

  it('omits the password from `shown`, inspect() and JSON', () => {
    const given = [
      check(`rediss://ann:${SECRET}@broker:6380/2`),
      check('rediss://ann@broker:6380/2', { password: SECRET }),
      check('rediss://ann@broker:6380/2', { env: { HOTSLOT_REDIS_PASSWORD: SECRET } }),
    ];
    expect(check(`rediss://ann:p:${SECRET}@broker`).shown).to.equal('rediss://ann@broker');
    for (const address of given) {
      expect(address.shown).to.equal('rediss://ann@broker:6380/2');
      expect(address.password()).to.equal(SECRET);
      expect(
        inspect(address, { depth: 9, showHidden: true }) + JSON.stringify(address),
      ).not.to.include(SECRET);
    }
    expect(check(`unix://ann:${SECRET}@/run/redis.sock`).shown).to.equal(
      'unix://ann@/run/redis.sock',
    );
  });

  it('throws for a URL without TLS to another machine unless `insecure` is true', () => {
    for (const host of [
      'broker',
      '10.0.0.1',
      '[::2]',
      '127.evil.example',
      'localhost.evil.example',
      '0.0.0.0',
    ]) {
      const error = refused(`redis://ann:${SECRET}@${host}:6379`);
      expect(error.code).to.equal('ERR_HOTSLOT_RANGE');
      expect(error.message)
        .to.match(/rediss:\/\//)
        .and.to.include('insecure: true')
        .and.to.include(`redis://ann@${host}`);
      expect(check(`redis://${host}`, { insecure: true }).tls).to.equal(false);
    }
    expect(refused('redis://broker', { insecure: 'no' as never }).code).to.equal(
      'ERR_HOTSLOT_ARGUMENT',
    );
  });

  it('throws for a user without a password, except for the user default', () => {
    expect(refused('redis://ann@localhost').message).to.match(/HOTSLOT_REDIS_PASSWORD/);
    expect(check('redis://default@localhost').username).to.equal('default');
  });

  it('throws for an invalid URL, and its error contains no secret of the URL', () => {
    const wrong = [
      `http://ann:${SECRET}@localhost`,
      `ann:${SECRET}@localhost:6379`,
      `redis://ann:${SECRET}@local host`,
      `redis://ann:${SECRET}@localhost:65536`,
      `redis://ann:${SECRET}@`,
      `redis://ann:${SECRET}@localhost?password=${SECRET}`,
      `redis://ann:${SECRET}@localhost#${SECRET}`,
      `redis://ann:${SECRET}%zz@localhost`,
      `redis://ann:${SECRET}@localhost/jobs`,
      `redis://localhost/${SECRET}`,
      `rediss://ann:12/${SECRET}@broker`,
      `rediss://ann:12/${SECRET}@broker:6380/2`,
      `rediss://ann:/${SECRET}@broker`,
      `unix://ann:${SECRET}@`,
      `unix://ann:${SECRET}@/`,
    ];
    for (const url of wrong) {
      const error = refused(url);
      expect(error.code, url).to.equal('ERR_HOTSLOT_RANGE');
      expect(inspect(error, { depth: 9, showHidden: true }), url).not.to.include(SECRET);
    }
    for (const url of [undefined, 6379, new URL('redis://localhost')])
      expect(refused(url).code).to.equal('ERR_HOTSLOT_ARGUMENT');
  });

  it('throws for a password that is a number or empty, and for a username that is a number', () => {
    expect(refused('redis://localhost', { password: 4711 as never }).message).to.match(/a number$/);
    expect(refused('redis://localhost', { password: '' }).code).to.equal('ERR_HOTSLOT_ARGUMENT');
    expect(refused('redis://localhost', { username: 7 as never }).code).to.equal(
      'ERR_HOTSLOT_ARGUMENT',
    );
  });

  it('takes `ca` as PEM text or a file, and throws for an unusable file or a URL without TLS', () => {
    const folder = mkdtempSync(join(tmpdir(), 'hotslot-address-'));
    try {
      const file = join(folder, 'ca.pem');
      writeFileSync(file, PEM);
      expect(check('rediss://broker', { ca: PEM }).ca).to.equal(PEM);
      expect(check('rediss://broker', { ca: file }).ca).to.equal(PEM);
      writeFileSync(file, 'no certificate');
      expect(refused('rediss://broker', { ca: file }).message).to.match(/holds no PEM certificate/);
      expect(refused('rediss://broker', { ca: join(folder, 'none.pem') }).message).to.match(
        /cannot be read.*ENOENT/,
      );
      expect(refused('redis://localhost', { ca: PEM }).message).to.match(/rediss:/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
