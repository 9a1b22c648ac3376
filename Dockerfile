# Sparlance in a container, for the CPU (the default) or for CUDA:
#
#   docker build -t sparlance .
#   docker build -t sparlance:cuda --target cuda .
#   docker run --rm -p 127.0.0.1:8080:8080 sparlance                     # the demo graph
#   docker run --rm -p 127.0.0.1:8080:8080 --read-only --tmpfs /tmp -v sparlance:/var/lib/sparlance \
#       -v "$PWD/data:/data:ro" sparlance serve --load /data/graph.ttl
#
# Not built where it was written (no container engine there): hadolint passes, the commands of each stage were run by hand.
# The root file system may be read-only: only /var/lib/sparlance (index, keys) and /tmp are written. docs/operations.md has more.

FROM python:3.12-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/sparlance
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY proxy ./proxy
RUN /opt/sparlance/bin/pip install '.[nl,redis,otel]'

FROM nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04 AS cuda
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/sparlance \
    && useradd --system --uid 10001 --home-dir /srv --shell /usr/sbin/nologin sparlance \
    && install -d -o 10001 -g 10001 /var/lib/sparlance
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY proxy ./proxy
RUN /opt/sparlance/bin/pip install '.[nl,redis,otel]'
WORKDIR /srv
COPY config.toml ./
COPY plugins ./plugins
USER 10001
ENV PATH=/opt/sparlance/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SPARLANCE_SERVER_HOST=0.0.0.0 \
    SPARLANCE_INDEX_DIRECTORY=/var/lib/sparlance/index \
    SPARLANCE_LOG_FORMAT=json
VOLUME /var/lib/sparlance
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s \
    CMD ["python3", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ.get('SPARLANCE_SERVER_PORT', '8080') + '/-/live', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["sparlance"]
CMD ["demo"]

# The last stage is what `docker build .` makes.
FROM python:3.12-slim-bookworm AS cpu
RUN useradd --system --uid 10001 --home-dir /srv --shell /usr/sbin/nologin sparlance \
    && install -d -o 10001 -g 10001 /var/lib/sparlance
COPY --from=build /opt/sparlance /opt/sparlance
WORKDIR /srv
COPY config.toml ./
COPY plugins ./plugins
USER 10001
# Inside, all interfaces: the container's own network is the border, and -p decides who reaches it.
ENV PATH=/opt/sparlance/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SPARLANCE_SERVER_HOST=0.0.0.0 \
    SPARLANCE_INDEX_DIRECTORY=/var/lib/sparlance/index \
    SPARLANCE_LOG_FORMAT=json
VOLUME /var/lib/sparlance
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ.get('SPARLANCE_SERVER_PORT', '8080') + '/-/live', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["sparlance"]
CMD ["demo"]
