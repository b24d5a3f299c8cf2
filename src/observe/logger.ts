import { pino, type Logger } from 'pino';

export type { Logger } from 'pino';

/** One root logger a process: JSON lines on stderr, so that stdout stays for a command's own output. */
export function createLogger(options: { level: string; bindings?: Record<string, unknown> }): Logger {
  return pino(
    {
      level: options.level,
      base: options.bindings ?? null,
      formatters: { level: (label) => ({ level: label }) },
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: {
        paths: [
          '*.apiKey',
          '*.api_key',
          'apiKey',
          'api_key',
          'bearer',
          '*.bearer',
          'headers.authorization',
          'env.*',
        ],
        censor: '[redacted]',
      },
    },
    pino.destination({ fd: 2, sync: true }),
  );
}

/** A logger that says nothing: the default of library use. */
export const silentLogger: Logger = pino({ level: 'silent' });
