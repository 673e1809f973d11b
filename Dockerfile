# Both stages stand on the same image: the environment that the first one makes runs on the second one's Python.
FROM python:3.14-slim-trixie AS build

WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY gateway gateway
# The versions that were tested; as a variable, because what builds the wheel is held to them too.
ENV PIP_CONSTRAINT=/src/constraints.txt
# pip stays behind: only what it installs goes into the image. It is compiled apart, without the times of files, so that two
# builds are alike and nothing is compiled again when the files get other times.
RUN python -m venv /pip \
 && python -m venv --without-pip /opt/toolgate \
 && /pip/bin/pip --python /opt/toolgate --no-cache-dir --disable-pip-version-check install --no-compile '.[otel]' \
 && PYTHONHASHSEED=0 /opt/toolgate/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/toolgate/lib


FROM python:3.14-slim-trixie

LABEL org.opencontainers.image.title="Toolgate" \
      org.opencontainers.image.description="A multi-protocol gateway for AI tools" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.licenses="MIT"

COPY --from=build /opt/toolgate /opt/toolgate

# Nothing is written: the root may be read-only.
ENV PATH=/opt/toolgate/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# A number, because Kubernetes cannot tell whether a name is root's.
USER 10001:10001
WORKDIR /etc/toolgate

# Callers; operators and Prometheus.
EXPOSE 8080 9464

# The admin listener is plain http on a fixed port wherever callers are served.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 9464, timeout=2); c.request('GET', '/health'); raise SystemExit(c.getresponse().status != 200)"]

ENTRYPOINT ["toolgate"]
CMD ["serve", "-c", "/etc/toolgate/gateway.yaml"]
