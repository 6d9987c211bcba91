# greenroom as a server in a container: the program, Debian's headless shell, Node, and the pinned engines, for a user
# that is not root. compose.yaml beside this file runs it; docs/INSTALL.md explains both.
#
#   docker build -t greenroom .
#
# BuildKit, which Docker uses by itself since version 23, keeps cargo's caches between builds.

# Debian 13 is the first Debian with a Node that the engine runs on. The program is built on it too, for the same libc.
ARG DEBIAN=trixie

# The slim image has a C compiler too, which the build of SQLite needs.
FROM rust:1.95-slim-${DEBIAN} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY crates crates
# The program embeds the engines' versions and checksums.
COPY engines engines
# Also part of it: the skill that `greenroom setup claude --skill` writes.
COPY packaging packaging
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked -p greenroom \
    && cp target/release/greenroom /usr/local/bin/greenroom

FROM debian:${DEBIAN}-slim AS base
# Versions are Debian's newest: nobody should pin an old browser, and Debian keeps no older ones.
# The fonts have the metrics of the common Western ones, and emoji. Add fonts-noto-cjk for Chinese, Japanese and Korean.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        ca-certificates chromium-headless-shell fonts-liberation fonts-noto-color-emoji nodejs tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --create-home --shell /usr/sbin/nologin greenroom \
    && install --directory --owner greenroom --group greenroom --mode 0700 /var/lib/greenroom
COPY --from=build /usr/local/bin/greenroom /usr/local/bin/greenroom
ENV GREENROOM_DATA_DIR=/var/lib/greenroom
# Clients outside of the container run as other users than greenroom in it.
ENV GREENROOM_SERVER_ALLOW_OTHER_USERS=true

# Only the installation of the engines needs npm, which brings some 400 packages: this stage keeps them out of the
# image.
FROM base AS engine
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends npm && rm -rf /var/lib/apt/lists/*
USER 10001
RUN greenroom setup && greenroom setup --pool-engine devtools

FROM base
LABEL org.opencontainers.image.title="greenroom" \
      org.opencontainers.image.description="Isolated browsers for AI agents, over MCP" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=engine --chown=greenroom:greenroom /var/lib/greenroom /var/lib/greenroom
USER 10001
WORKDIR /home/greenroom

EXPOSE 34501
# The health check uses Node, so that the image needs no curl.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["node", "-e", "fetch('http://127.0.0.1:34501/health').then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]

# A browser that dies leaves children, and the kernel hands them to process 1, which has to collect them. greenroom
# collects those it started itself; tini collects all, and passes signals on to greenroom.
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/greenroom"]
CMD ["serve", "--listen", "127.0.0.1:34501"]
