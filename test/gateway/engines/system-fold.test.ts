import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ChatMessage } from '../../../src/contracts/index.ts';
import { foldInlineSystem } from '../../../src/gateway/engines/system-fold.ts';

const message = fc.oneof(
  fc.record({ role: fc.constant('system' as const), content: fc.string({ minLength: 1 }) }),
  fc.record({ role: fc.constant('user' as const), content: fc.string() }),
  fc.record({ role: fc.constant('assistant' as const), content: fc.string() }),
  fc.record({ role: fc.constant('tool' as const), tool_call_id: fc.constant('t'), content: fc.string() }),
);
const history = fc.array(message, { maxLength: 12 });

test('no text is lost, nothing is hoisted, and only a leading system message is left', () => {
  fc.assert(
    fc.property(history, (messages) => {
      const folded = foldInlineSystem(messages);
      expect(folded.slice(1).every(({ role }) => role !== 'system')).toBe(true);
      expect(folded[0]?.role === 'system').toBe(messages[0]?.role === 'system');
      const text = (list: readonly ChatMessage[]): number =>
        list.reduce((sum, each) => sum + (each.content as string).replaceAll('\n\n', '').length, 0);
      expect(text(folded)).toBe(text(messages));
    }),
  );
});

test('a history that grew at its end by an answer and what follows keeps its folded beginning', () => {
  fc.assert(
    fc.property(history, history, (messages, more) => {
      const first = foldInlineSystem(messages);
      const grown = foldInlineSystem([...messages, { role: 'assistant', content: 'a' }, ...more]);
      // A request that ends in a system message is not answered by an agent that goes on from it.
      if (messages.at(-1)?.role === 'system') return;
      expect(grown.slice(0, first.length)).toEqual(first);
    }),
  );
});
