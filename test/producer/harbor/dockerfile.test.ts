import { describe, expect, it } from 'vitest';
import { envInstructions, readDockerfile } from '../../../producer/readers/harbor/dockerfile.ts';

const workdirOf = (text: string): string | null => readDockerfile(text).workdir;

describe('the working directory of a Dockerfile', () => {
  it.each([
    ['is its last WORKDIR', 'FROM a\nWORKDIR /x\nRUN true\nWORKDIR /app\n', '/app'],
    ['may be relative to the one before', 'FROM a\nWORKDIR /app\nWORKDIR src/../lib\n', '/app/lib'],
    ['is relative to / at first', 'FROM a\nworkdir app', '/app'],
    ['is unknown without one', 'FROM a\nRUN cd /app\n', null],
    ['does not go over to another stage', 'FROM a AS one\nWORKDIR /one\nFROM b\n', null],
    ['goes over to a stage that begins with the other', 'FROM a AS One\nWORKDIR /one\nFROM one\n', '/one'],
    ['may be quoted', 'FROM a\nWORKDIR "/my app"\n', '/my app'],
    ['has variables of ENV', 'FROM a\nENV ROOT=/srv NAME="a b"\nWORKDIR $ROOT/${NAME}\n', '/srv/a b'],
    ['has variables of an old ENV', 'FROM a\nENV ROOT /srv/x\nWORKDIR $ROOT\n', '/srv/x'],
    ['has defaults of ARG', 'FROM a\nARG DIR=/work\nWORKDIR ${DIR}\n', '/work'],
    ['has a global ARG that the stage asks for', 'ARG D=/g\nFROM a\nARG D\nWORKDIR $D\n', '/g'],
    ['has no global ARG that it does not ask for', 'ARG D=/g\nFROM a\nWORKDIR /x${D}\n', '/x'],
    ['takes ENV before ARG', 'FROM a\nARG D=/arg\nENV D=/env\nWORKDIR $D\n', '/env'],
    ['has a value where there is none', 'FROM a\nWORKDIR ${D:-/here}\n', '/here'],
    ['has another value where there is one', 'FROM a\nENV D=1\nWORKDIR /${D:+there}\n', '/there'],
    ['keeps a sign that means nothing', 'FROM a\nWORKDIR /a\\$b\n', '/a$b'],
    ['is read over continued lines', 'FROM a\nWORKDIR \\\n# why\n\n  /app\n', '/app'],
    ['is read with Windows line ends', 'FROM a\r\nWORKDIR /app\r\n', '/app'],
    ['is read with another escape', '# escape=`\nFROM a\nWORKDIR `\n/app\n', '/app'],
    ['is no line of a here-document', 'FROM a\nWORKDIR /app\nRUN <<EOF\nWORKDIR /no\nEOF\n', '/app'],
    ['comes after one', 'FROM a\nCOPY <<-"END" /f\nWORKDIR /no\n\tEND\nWORKDIR /app\n', '/app'],
    ['is no shift of bits', 'FROM a\nRUN echo $((1<<x))\nWORKDIR /app\n', '/app'],
  ])('%s', (_what, text, workdir) => {
    expect(workdirOf(text)).toBe(workdir);
  });

  it('names the variables that nobody gave a value', () => {
    expect(readDockerfile('FROM a\nWORKDIR $HOME/${X}/app\n')).toMatchObject({
      workdir: '/app',
      unknown: ['HOME', 'X'],
    });
  });
});

it('a Dockerfile has an entry point unless the last one is empty, and none without a FROM', () => {
  expect(readDockerfile('FROM a\nENTRYPOINT ["/serve"]\n').entrypoint).toBe('["/serve"]');
  expect(readDockerfile('FROM a\nENTRYPOINT ["/serve"]\nENTRYPOINT []\n').entrypoint).toBeNull();
  expect(readDockerfile('FROM ${BASE:-x}\n').from).toBe('x');
  expect(readDockerfile('RUN true\n').from).toBeNull();
});

it('variables put at the end of a Dockerfile are read as they are', () => {
  const value = 'a "b" $c \\d `e` \'f\'';
  for (const escape of ['\\', '`']) {
    const text = `# escape=${escape}\nFROM a\n${envInstructions({ V: value }, escape)}WORKDIR /\${V}\n`;
    expect(workdirOf(text)).toBe(`/${value}`);
  }
});
