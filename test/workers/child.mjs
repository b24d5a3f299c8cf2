// A worker process as its pool sees it: says that it is ready, ends as it is told.
const [mode, counter] = process.argv.slice(2);
const { appendFileSync } = await import('node:fs');
if (counter !== undefined) appendFileSync(counter, `${process.pid}\n`);
if (mode === 'broken') process.exit(2);
process.on('SIGTERM', () => process.exit(mode === 'ends-badly' ? 1 : 0));
process.on('disconnect', () => process.exit(0));
process.send?.({ ready: `worker-${process.pid}` });
if (mode === 'crashes') process.exit(3);
