# The front door: thin lines over cargo and scripts.
.DEFAULT_GOAL := help
.PHONY: help bench-sidecar sidecar demo install image test test-cluster test-deps lint bench

help: ## list the targets
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort | expand -t 14

demo: ## classify the demo names against the built-in lab DNS and print their YAML
	cargo run --quiet --profile demo -p egress-audit -- lab demo

install: ## put the release binaries into Cargo's bin folder, and link the kubectl plugin
	cargo install --locked --path cli
	cargo install --locked --path sidecar
	ln -sf egress-audit "$${CARGO_HOME:-$$HOME/.cargo}/bin/kubectl-egress_audit"

test: test-deps ## every test, real servers included (installs what they need)
	cargo build --workspace --bins
	cargo test --workspace --doc
	cargo test --workspace --lib --bins --tests

test-cluster: ## a real API server and istiod; built with Go the first time
	cargo test --workspace --test cluster

test-%: test-deps ## one tier of tests/: test-structure, test-cli, test-dns, ...
	cargo test -p egress-audit-tests --test $*

test-deps: ## install the servers that the tests run, or say what is missing
	@scripts/install-test-deps

lint: ## formatting, clippy, unused dependencies, as CI runs them
	@scripts/install-lint-tools
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo check --quiet -p egress-audit-tests --test cluster
	cargo machete

bench: ## ratios against peers in one run (needs dnsperf and the test servers; `bench-sidecar` needs Go)
	cargo bench -p egress-audit-policies -p egress-audit-labdns -p egress-audit-probes -p egress-audit --bench '*'

bench-sidecar: sidecar ## the drain sidecar beside a Go peer, and what each order loses (needs Go, haproxy)
	DRAIN_SIDECAR_BIN=$(CURDIR)/target/$$(uname -m)-unknown-linux-gnu/sidecar/drain-sidecar cargo bench -p drain-sidecar --bench health
	cargo bench -p egress-audit-tests --bench lag --bench lost

image: ## a container image from scratch as an OCI archive, without a container engine
	scripts/image

sidecar: ## one static binary for the image, under target/<machine>/sidecar
	RUSTFLAGS="-C target-feature=+crt-static" cargo build -p drain-sidecar --profile sidecar --target $$(uname -m)-unknown-linux-gnu
