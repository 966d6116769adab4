# The image of `global-discovery serve`. Nothing in it needs a shell, root or a
# writable file system.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY requirements-build.lock requirements-server.lock ./
RUN python -m venv /build \
 && /build/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock \
 && python -m venv /opt/venv \
 && /opt/venv/bin/pip install --no-cache-dir --require-hashes -r requirements-server.lock
COPY pyproject.toml README.md LICENSE ./
COPY python ./python
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
 && /opt/venv/bin/pip install --no-deps --no-index --find-links /dist global-discovery \
 && /opt/venv/bin/pip uninstall --yes pip setuptools

FROM python:3.11-slim-bookworm
COPY --from=build /opt/venv /opt/venv
ENV PATH="/opt/venv/bin:$PATH" \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8080 50051
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s --retries=3 \
  CMD ["global-discovery", "health"]
ENTRYPOINT ["global-discovery"]
CMD ["serve"]
