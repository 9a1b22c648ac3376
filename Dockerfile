# Sparlance in a container. Not built where it was written (no container engine there): treat the first build as a test.
#
#   docker build -t sparlance .
#   docker run --rm -p 127.0.0.1:8080:8080 -v "$PWD/data:/data:ro" sparlance serve --load /data/graph.ttl
#
# The GPU build of the models' runtime runs on the CPU as well. For a GPU, start from an image with CUDA 13 and cuDNN 9.

FROM python:3.12-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/sparlance
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY proxy ./proxy
RUN /opt/sparlance/bin/pip install '.[nl]'

FROM python:3.12-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /srv --shell /usr/sbin/nologin sparlance
COPY --from=build /opt/sparlance /opt/sparlance
WORKDIR /srv
COPY config.toml ./
COPY plugins ./plugins
USER 10001
# Inside, all interfaces: the container's own network is the border, and -p decides who reaches it.
ENV PATH=/opt/sparlance/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    SPARLANCE_SERVER_HOST=0.0.0.0 \
    SPARLANCE_LOG_FORMAT=json
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ.get('SPARLANCE_SERVER_PORT', '8080') + '/-/live', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["sparlance"]
CMD ["demo"]
