#!/usr/bin/env node
import { exitCodes } from './bad-use.ts';
import { runProgram } from './program.ts';

// A reader that closes our pipe (head, less) ends us quietly, as it ends every other program.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(exitCodes.done);
  throw error;
});

process.exitCode = await runProgram(process.argv.slice(2));
