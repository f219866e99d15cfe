# Two static binaries and nothing else. `make image` builds them and packs this without a container engine; with one:
#   scripts/image --context target/image && docker build -t egress-audit target/image
FROM scratch
COPY egress-audit drain-sidecar /
USER 65532:65532
ENTRYPOINT ["/egress-audit"]
