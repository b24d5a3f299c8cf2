import { randomUUID } from 'node:crypto';

/** 24 hexadecimal digits that nobody else has. Node draws UUIDs from a store of random bytes: a draw of one's own is a system call. */
export function randomId(): string {
  return randomUUID().replaceAll('-', '').slice(0, 24);
}
