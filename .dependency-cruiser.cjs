// The rooms of docs/architecture.md and who may import whom.
const rooms = [
  'contracts',
  'config',
  'queue',
  'gateway',
  'trajectory',
  'sandbox',
  'agents',
  'fleet',
  'grading',
  'episode',
  'policy',
  'local-fleet',
  'observe',
  'cli',
];
const only = (name, allowed) => ({
  name: `${name}-imports`,
  severity: 'error',
  from: { path: `^src/${name}/` },
  to: {
    path: `^(src/(${rooms.filter((room) => room !== name && !allowed.includes(room)).join('|')})/|producer/|workers/)`,
  },
});

module.exports = {
  forbidden: [
    { name: 'no-circular', severity: 'error', from: {}, to: { circular: true } },
    { name: 'no-unresolved', severity: 'error', from: {}, to: { couldNotResolve: true } },
    only('contracts', []),
    only('config', ['contracts']),
    only('observe', ['contracts']),
    only('trajectory', ['contracts']),
    only('queue', ['contracts', 'observe']),
    only('gateway', ['contracts', 'observe']),
    only('sandbox', ['contracts', 'observe']),
    only('fleet', ['contracts', 'observe']),
    only('policy', ['contracts', 'observe']),
    only('local-fleet', ['contracts', 'observe']),
    only('agents', ['contracts', 'observe', 'sandbox', 'gateway', 'fleet']),
    only('grading', ['contracts', 'observe', 'sandbox', 'fleet']),
    only('episode', [
      'queue',
      'contracts',
      'observe',
      'config',
      'trajectory',
      'gateway',
      'sandbox',
      'agents',
      'grading',
      'fleet',
    ]),
    {
      name: 'agents-and-grading-see-interfaces',
      severity: 'error',
      from: { path: '^src/(agents|grading)/' },
      to: {
        path: '^src/(sandbox/(docker|e2b|local)/|gateway/(?!session\\.ts|chat\\.ts)|fleet/(?!environment\\.ts))',
      },
    },
    {
      name: 'episode-knows-of-the-queue-only-what-an-attempt-is',
      severity: 'error',
      from: { path: '^src/episode/' },
      to: { path: '^src/queue/(?!processor\\.ts)' },
    },
    {
      name: 'nobody-imports-from-above',
      severity: 'error',
      from: { path: '^src/(?!cli/|index\\.ts)' },
      to: { path: '^(producer|workers|src/cli)/' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      extensions: ['.ts', '.js'],
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default'],
    },
  },
};
