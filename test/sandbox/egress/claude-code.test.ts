import { expect, test } from 'vitest';
import { parseScripts } from '../../../src/policy/index.ts';
import { openStage } from '../../agents/claude-episode.ts';
import { haveDocker } from '../docker-daemon.ts';
import { httpHost } from './stage.ts';

test.runIf(haveDocker)(
  'the CLI reaches its gateway where the hosts of a list are reached by a proxy, and so do its tools and the verifier',
  async () => {
    await using host = await httpHost((_request, response) => response.end('42'));
    const url = `http://allowed.test:${host.port}/`;
    const get = `python3 -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())'`;
    const bash = (command: string): unknown => ({
      tool_calls: [{ name: 'Bash', arguments: { command, description: 'Run it' } }],
    });
    await using stage = await openStage({
      scripts: parseScripts({
        schema: 'rollpool.scripts/1',
        scripts: [
          {
            match: '[fetch it]',
            turns: [
              bash(`${get} ${url} > answer.txt`),
              bash(`${get} http://evil.test/ 2>&1 | tail -n 1 > refused.txt`),
              { text: 'Fetched.' },
            ],
          },
        ],
      }),
    });
    await using episode = await stage.open('docker', {
      prompt: '[fetch it]',
      network: { allow: [`allowed.test:${host.port}`] },
      egress: { allowPrivate: ['127.0.0.1/32'], resolve: () => Promise.resolve(['127.0.0.1']) },
    });
    expect(await episode.run()).toMatchObject({
      ending: 'agent_done',
      exit_code: 0,
      final_answer: 'Fetched.',
    });
    const { stats } = await episode.finish();
    expect(stats).toMatchObject({ calls: 3, main_turns: 3, failure: null });
    const read = async (path: string): Promise<string> =>
      Buffer.from((await episode.sandbox.read(path, 1_000)) ?? '').toString();
    expect(await read('answer.txt')).toBe('42\n');
    expect(await read('refused.txt')).toContain('403');
    const commands = [`test "$(${get} ${url})" = 42`, `! ${get} http://evil.test/`];
    expect((await episode.grade({ commands })).reward).toBe(1);
    // The CLI itself asked for nothing else.
    expect(episode.sandbox.metrics).toEqual({ egress_allowed: 2, egress_refused: 2 });
  },
);
