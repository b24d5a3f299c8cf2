export { crashPoint, crashPoints, setCrashHook, type CrashPoint } from './crash-points.ts';
export { createLogger, silentLogger, type Logger } from './logger.ts';
