import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ImageBuild, SandboxSpec } from '../../src/contracts/index.ts';
import { DockerProvider, type DockerProviderOptions } from '../../src/sandbox/docker/docker-provider.ts';
import { buildTag } from '../../src/sandbox/docker/images/build-context.ts';
import { reclaimImages } from '../../src/sandbox/docker/images/reclaim-images.ts';
import { silentLogger } from '../../src/observe/index.ts';
import { until } from '../support/wait.ts';
import { docker, haveDocker, testImage } from './docker-daemon.ts';
import { openGateway, requestOf } from './fixture.ts';
import { Registry } from './registry.ts';

const never = (): AbortSignal => new AbortController().signal;
const mark = `${process.pid}-${Date.now()}`;

function specOf(overrides: Partial<SandboxSpec>): SandboxSpec {
  return { cpus: 1, memory_mb: 512, network: 'none', workdir: '/workspace', ...overrides };
}

/** A build of its own for this run, so that nothing of it is there. */
function buildOf(dockerfile: string, more: Partial<ImageBuild> = {}): ImageBuild {
  return { ...more, files: { Dockerfile: dockerfile, mark, ...more.files } };
}

describe.runIf(haveDocker)('images', () => {
  let registry: Registry;
  let directory: string;
  const images = new Set<string>();
  const providers: DockerProvider[] = [];
  let lines: Record<string, unknown>[] = [];
  const log = pino(
    { level: 'info' },
    { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
  );

  function open(options: DockerProviderOptions = {}): DockerProvider {
    const provider = new DockerProvider({
      log,
      lockDirectory: directory,
      dockerConfig: directory,
      ...options,
    });
    providers.push(provider);
    return provider;
  }
  const said = (message: string): Record<string, unknown>[] => lines.filter(({ msg }) => msg === message);
  const isThere = async (name: string): Promise<boolean> =>
    docker
      .getImage(name)
      .inspect()
      .then(
        () => true,
        () => false,
      );
  const dangling = async (): Promise<string[]> =>
    (await docker.listImages({ filters: JSON.stringify({ dangling: ['true'] }) })).map(({ Id }) => Id);
  const provideImage = async (
    provider: DockerProvider,
    image: string,
    signal = never(),
  ): Promise<unknown> => {
    if (image.startsWith(registry.host)) images.add(image);
    return provider.provide(specOf({ image }), signal).catch((error: unknown) => error);
  };
  const provideBuild = async (provider: DockerProvider, build: ImageBuild): Promise<unknown> => {
    images.add(buildTag(build));
    return provider.provide(specOf({ build }), never()).catch((error: unknown) => error);
  };

  beforeAll(async () => {
    registry = await Registry.start();
    directory = await mkdtemp(join(tmpdir(), `rp-images-${process.pid}-`));
  });
  afterAll(async () => {
    for (const provider of providers) await provider[Symbol.asyncDispose]();
    // No lock is left, nor anything of one.
    expect((await readdir(directory)).filter((name) => name.includes('lock'))).toEqual([]);
    for (const name of images)
      await docker
        .getImage(name)
        .remove()
        .catch(() => undefined);
    await registry[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  });

  test('an image is pulled once, however many episodes and processes ask for it', async () => {
    lines = [];
    const image = await registry.add('once');
    const workers = [open(), open()];
    const asked = workers.flatMap((worker) => Array.from({ length: 10 }, () => provideImage(worker, image)));
    expect(new Set(await Promise.all(asked))).toEqual(new Set([undefined]));
    expect(await isThere(image)).toBe(true);
    expect(registry.pulls('once')).toBe(1);
    expect(said('pulling an image')).toHaveLength(1);
    expect(said('image pulled')).toMatchObject([{ image, seconds: expect.any(Number), mb: 1 }]);
    await provideImage(workers[0]!, image);
    expect(registry.pulls('once')).toBe(1);
  });

  test.each([
    ['a registry that has no such image', { manifestStatus: 404 }, 'task', 'image_missing'],
    ['one that denies it', { manifestStatus: 403 }, 'task', 'image_missing'],
    ['one that fails', { manifestStatus: 500 }, 'infra', 'registry_unreachable'],
    ['one that has had enough', { manifestStatus: 429 }, 'infra', 'registry_unreachable'],
  ] as const)(
    '%s: the class is right, and it is not asked again at once',
    async (_what, fault, kind, code) => {
      const name = `fault-${code}-${JSON.stringify(fault)
        .replace(/[^a-z0-9]+/gi, '-')
        .toLowerCase()}x`;
      const image = await registry.add(name, fault);
      const provider = open();
      const failures = await Promise.all(Array.from({ length: 20 }, () => provideImage(provider, image)));
      failures.push(await provideImage(provider, image));
      for (const failure of failures) {
        expect(failure).toMatchObject({
          failure: { class: kind, phase: 'boot', code, retryable: kind === 'infra' },
          message: expect.stringContaining(`sandbox.image: ${image}: `),
        });
      }
      // Docker itself asks again, for an older form of a manifest.
      expect(registry.pulls(name)).toBeLessThanOrEqual(2);
    },
  );

  test('a registry that is not there is ours, and a name that is none is the task’s', async () => {
    const provider = open();
    expect(await provideImage(provider, '127.0.0.1:1/x:1')).toMatchObject({
      failure: { class: 'infra', code: 'registry_unreachable' },
    });
    for (const name of ['Not A Name', '../containers/x', 'x:y:z', '']) {
      expect(await provideImage(provider, name)).toMatchObject({
        failure: { class: 'task', code: 'image_missing' },
        message: `sandbox.image: ${JSON.stringify(name)} is not the name of an image`,
      });
    }
  });

  test('logs in as docker does, by its configuration or a helper it names, and says no secret', async () => {
    lines = [];
    const auth = Buffer.from('user:s3cret-pass').toString('base64');
    await using byFile = await Registry.start('user:s3cret-pass');
    await using byHelper = await Registry.start('helped:s3cret-pass');
    const image = await byFile.add('private');
    images.add(image);
    const denied = await provideImage(open(), image);
    expect(denied).toMatchObject({ failure: { class: 'task', code: 'image_denied' } });
    const config = join(directory, 'config.json');
    await writeFile(config, JSON.stringify({ auths: { [byFile.host]: { auth } } }));
    expect(await provideImage(open(), image)).toBeUndefined();

    const helper = join(directory, 'docker-credential-rptest');
    await writeFile(
      helper,
      `#!/bin/bash\nread -r host\n[[ $1 == get && $host == ${byHelper.host} ]] || exit 1\n` +
        `printf '{"ServerURL":"%s","Username":"helped","Secret":"s3cret-pass"}' "$host"\n`,
    );
    await chmod(helper, 0o755);
    await writeFile(config, JSON.stringify({ credHelpers: { [byHelper.host]: 'rptest' } }));
    const path = process.env['PATH'];
    process.env['PATH'] = `${directory}:${path}`;
    try {
      const helped = await byHelper.add('private');
      images.add(helped);
      expect(await provideImage(open(), helped)).toBeUndefined();
    } finally {
      process.env['PATH'] = path;
      await rm(config);
    }
    expect(JSON.stringify([lines, denied, String(denied)])).not.toMatch(new RegExp(`s3cret|${auth}`));
  });

  test('a cancelled episode does not end a pull that others wait for; the last to leave does', async () => {
    let release = (): void => undefined;
    const hold = new Promise<void>((resolve) => (release = resolve));
    const image = await registry.add('slow', { hold });
    const provider = open();
    const leaving = new AbortController();
    const left = provideImage(provider, image, leaving.signal);
    const stays = provideImage(provider, image);
    await until(() => registry.pulls('slow') > 0, 'the pull began');
    leaving.abort(new Error('cancelled by test'));
    expect(await left).toEqual(new Error('cancelled by test'));
    release();
    expect(await stays).toBeUndefined();

    const stuck = await registry.add('stuck', { hold: new Promise<void>(() => undefined) });
    const alone = new AbortController();
    const given = provideImage(provider, stuck, alone.signal);
    await until(() => registry.pulls('stuck') > 0, 'the other pull began');
    alone.abort(new Error('cancelled by test'));
    expect(await given).toEqual(new Error('cancelled by test'));
    await until(async () => (await readdir(directory)).every((name) => !name.includes('lock')), 'it let go');
  });

  test('a pull whose layer is cut off again and again ends at its deadline, and is ours', async () => {
    const image = await registry.add('cut', { cuts: 1_000 });
    expect(await provideImage(open({ imageSeconds: 1 }), image)).toMatchObject({
      failure: { class: 'infra', code: 'image_timeout' },
      message: `sandbox.image: ${image} was not there in 1 s`,
    });
  });

  test('a build is made once, with what is executable, and again when its image was removed', async () => {
    lines = [];
    const build = buildOf(`FROM ${testImage}\nCOPY bin/tool /usr/local/bin/tool\n`, {
      files: { 'bin/tool': '#!/bin/bash\necho built\n' },
      executable: ['bin/tool'],
    });
    const workers = [open(), open()];
    const made = workers.flatMap((worker) => Array.from({ length: 5 }, () => provideBuild(worker, build)));
    expect(new Set(await Promise.all(made))).toEqual(new Set([undefined]));
    expect(said('building an image')).toHaveLength(1);
    expect(said('image built')).toMatchObject([{ image: buildTag(build) }]);
    expect((await docker.getImage(buildTag(build)).inspect()).Config.Labels).toMatchObject({
      'io.rollpool.build': buildTag(build),
    });

    await docker.getImage(buildTag(build)).remove();
    await using gateway = await openGateway();
    const request = requestOf(gateway.directory, { spec: { build } });
    await using sandbox = await workers[0]!.create(request);
    expect((await sandbox.exec(['tool'], { user: 'agent', timeout_ms: 30_000 })).stdout).toBe('built\n');
    expect(said('image built')).toHaveLength(2);
  });

  test('what is not the same content is not the same image', () => {
    const base = buildOf('FROM scratch\n', { files: { a: 'x' } });
    const others: ImageBuild[] = [
      { ...base, executable: ['a'] },
      { ...base, files: { ...base.files, a: 'y' } },
      { ...base, files: { ...base.files, b: '' } },
      { ...base, files: { ...base.files, D2: 'FROM scratch\n' }, dockerfile: 'D2' },
    ];
    expect(new Set([base, ...others].map(buildTag)).size).toBe(5);
    const again = {
      files: Object.fromEntries(Object.entries(base.files).toReversed()),
      dockerfile: './Dockerfile',
    };
    expect(buildTag({ ...again, seconds: 5 })).toBe(buildTag(base));
  });

  test.each([
    [
      'a command that fails',
      `FROM ${testImage}\nRUN echo one >/a\nRUN echo 'it says why' && exit 3\n`,
      /code: 3.*it says why/s,
    ],
    ['a file that is not there', 'FROM scratch\nCOPY nope /\n', /COPY failed: file not found/],
    ['a word that is none', 'FROM scratch\nFOO x\n', /unknown instruction: FOO/],
    ['a program that is not there', `FROM ${testImage}\nRUN ["/nope"]\n`, /no such file or directory/],
  ])('a Dockerfile with %s is the task’s fault', async (_what, dockerfile, words) => {
    const before = await dangling();
    const failure = await provideBuild(open(), buildOf(dockerfile));
    expect(failure).toMatchObject({
      failure: { class: 'task', phase: 'boot', code: 'build_failed', retryable: false },
      message: expect.stringMatching(words),
    });
    // What its first steps made went as well.
    expect((await dangling()).filter((id) => !before.includes(id))).toEqual([]);
  });

  test('a build whose base image cannot be had is a matter of that image', async () => {
    const missing = await registry.add('base', { manifestStatus: 404 });
    expect(await provideBuild(open(), buildOf(`FROM ${missing}\n`))).toMatchObject({
      failure: { class: 'task', code: 'image_missing' },
    });
    expect(await provideBuild(open(), buildOf('FROM 127.0.0.1:1/x:1\n'))).toMatchObject({
      failure: { class: 'infra', code: 'registry_unreachable' },
    });
  });

  test('a build that takes too long is given up, and nothing of it runs on', async () => {
    const build = buildOf(`FROM ${testImage}\nRUN echo one >/a\nRUN sleep 3${process.pid}\n`, { seconds: 3 });
    const before = await dangling();
    expect(await provideBuild(open(), build)).toMatchObject({
      failure: { class: 'infra', code: 'image_timeout' },
      message: expect.stringMatching(/^sandbox\.build: .* was not there in 3 s$/),
    });
    const running = async (): Promise<boolean> =>
      (await docker.listContainers({ all: true })).some(({ Command }) =>
        Command.includes(`sleep 3${process.pid}`),
      );
    await until(async () => !(await running()), 'its container is gone');
    await until(async () => (await dangling()).every((id) => before.includes(id)), 'its first step is gone');
  });

  test('where the disk is nearly full nothing starts, and the error has the numbers', async () => {
    const provider = open({ diskFreeMb: 2 ** 40 });
    const full = {
      failure: { class: 'infra', code: 'disk_full', retryable: true },
      message: expect.stringMatching(/^\d+ MB are free in \/.* and 1099511627776 MB must be/),
    };
    expect(await provideImage(provider, await registry.add('no-space'))).toMatchObject(full);
    expect(registry.pulls('no-space')).toBe(0);
    await expect(provider.create(requestOf('/nonexistent'))).rejects.toMatchObject(full);
  });

  test('space is made by removing what was built here and nobody uses, and nothing else', async () => {
    const build = buildOf('FROM scratch\nCOPY mark /unused\n');
    expect(await provideBuild(open(), build)).toBeUndefined();
    const [repo, tag] = ['rollpool-test-foreign', String(process.pid)];
    const foreign = `${repo}:${tag}`;
    images.add(foreign);
    await docker.getImage(buildTag(build)).tag({ repo, tag });
    await reclaimImages(docker, async () => !(await isThere(buildTag(build))), silentLogger);
    expect(await isThere(buildTag(build))).toBe(false);
    expect(await isThere(foreign)).toBe(true);
    expect(await isThere(testImage)).toBe(true);
  });
});
