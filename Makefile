# The front door: thin lines over cargo and scripts.
.PHONY: demo test lint bench

demo: ## classify the demo names against the built-in lab DNS and print their YAML
	cargo run --quiet --release -p egress-audit -- lab demo

test: ## everything that needs no Go
	cargo test --workspace

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

bench: ## ratios against peers in one run
	cargo bench --workspace
