# Everything a developer runs. Needs cargo, Node with npm, Python, and apt-get or an installed browser.

.DEFAULT_GOAL := help
.PHONY: help run test test-oldest check bench soak install picture fmt ready deps

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))

# Tests share installed engines, one of each kind; these stay between runs, so that only the first run downloads.
export GREENROOM_TEST_DATA_DIR := $(TARGET)/data
# So do the MCP SDKs that drive greenroom.
export GREENROOM_TEST_SDK_DIR := $(TARGET)/sdk

help: ## Print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "%-11s %s\n", $$1, $$2 }'

run: deps ## Build, set up, check this machine, say how to connect an agent, and serve
	cargo build --release --locked -p greenroom
	@scripts/run $(TARGET)/release/greenroom

test: ready ## Build everything and run every test but the long ones
	scripts/test
	cargo test --workspace --doc --locked

test-oldest: ready ## The same with the oldest Chromium that is supported, from Debian's archive
	browsers=$$(scripts/oldest $(TARGET)/browsers) && GREENROOM_TEST_BROWSERS=$$browsers scripts/test

check: ## Formatting, lints, documentation, licences, unused dependencies
	scripts/check

bench: ## Measure what greenroom adds to a call and to memory
	@scripts/bench

soak: deps ## Run the long tests: isolation, leaks, and browsers that die all the time
	cargo build --workspace --all-targets --locked
	$(TARGET)/debug/greenroom setup --data-dir "$(GREENROOM_TEST_DATA_DIR)"
	GREENROOM_SOAK=1 scripts/test --profile soak

install: ## Install greenroom for this user, with cargo
	cargo install --locked --path crates/cli

picture: ## Draw README's picture: a terminal in which greenroom demo runs
	cargo build --release --locked -p greenroom
	scripts/picture --still --out docs/images/demo.svg $(TARGET)/release/greenroom demo

fmt: ## Format the sources
	cargo fmt --all

# What the tests need.
ready: deps
	scripts/sdks
	cargo build --workspace --all-targets --locked
	$(TARGET)/debug/greenroom setup --data-dir "$(GREENROOM_TEST_DATA_DIR)"
	$(TARGET)/debug/greenroom setup --data-dir "$(GREENROOM_TEST_DATA_DIR)" --pool-engine devtools

deps:
	@scripts/deps
