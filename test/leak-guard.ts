// Placeholder for the leak guard: filled by the house.
export {};
