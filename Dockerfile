# Triune with its command line, for machines that have no Rust: docker build -t triune . && docker run --rm triune
FROM rust:1-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends make python3 python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN make wheel

FROM python:3.13-slim-bookworm
COPY --from=build /src/dist/*.whl /tmp/
RUN pip install --no-cache-dir "$(ls /tmp/triune-*.whl)[onnx,images]" && rm /tmp/triune-*.whl && useradd --create-home triune
USER triune
WORKDIR /home/triune
ENTRYPOINT []
CMD ["python", "-m", "triune.demo"]
