# The worker, producer and feeder image. It holds no agent CLI (400 MB, its own licence): mount one and name it
# with ROLLPOOL_CLAUDE_CLI. See docs/deploy.md.
FROM node:20-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY scripts/copy-assets.mjs scripts/
COPY src src
COPY producer producer
COPY workers workers
RUN npm run build && npm prune --omit=dev --omit=optional

FROM node:20-bookworm-slim
WORKDIR /app
ENV NODE_ENV=production
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY LICENSE ./
ENTRYPOINT ["node", "dist/src/cli/main.js"]
CMD ["worker"]
