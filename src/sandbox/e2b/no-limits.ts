import type { CreationGate, PlaceLimit } from '../../contracts/index.ts';

const nothing = async (): Promise<void> => {};

/** Creations are let through at once. */
export const freeCreations: CreationGate = {
  enter: async (signal) => {
    signal.throwIfAborted();
    return { passed: nothing, refused: nothing, left: nothing };
  },
};

/** There is always a place. */
export const freePlaces: PlaceLimit = {
  take: async (signal) => {
    signal.throwIfAborted();
    return { release: nothing, [Symbol.asyncDispose]: nothing };
  },
};
