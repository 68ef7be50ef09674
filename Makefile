# The commands of every day. Each installs the system packages that it needs and that are missing. Everything else is a
# script with --help: ci/steps (one kind of check each), ci/full (all of them), ci/release, Benchmarks, Relay.

.DEFAULT_GOAL := help
.PHONY: help demo build test test-page test-relay test-fleet lint format docs relay-demo bench bench-instructions release clean toolchain

# Without traits, as a user builds, and so that `make demo` and `make test` share a build.
export BUILD := .build
SOURCES := Package.swift Sources Tests Benchmarks Docs/Examples Relay/Package.swift Relay/Sources Relay/Tests

help: ## Show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26

demo: ## Build the tool and let it push to a simulated APNs
	@ci/steps/demo

build: toolchain ## Build everything, optimised
	@ci/lib/install-packages build
	swift build -c release

test: ## Run all tests of the library, the simulator and the tool
	@ci/steps/test

test-page: ## Test the simulator's page in headless Chromium (PAGE_PUSHES=100000)
	@ci/steps/page

test-relay: ## Test the relay: its queue, its API, its page, and kills of its process (RELAY_KILLS=50, SEED=n)
	@ci/steps/relay
	@ci/steps/relay-openapi
	@ci/steps/relay-page

test-fleet: ## Test relays that share a queue in PostgreSQL while relays, database and networks fail (FLEET=short, FLEET_KILLS=4)
	@ci/steps/fleet

lint: ## Check the format of the sources, names, sizes, imports and the pages
	@ci/steps/lint

format: toolchain ## Format the sources, and renew the copies of the pages' examples
	@# Only regular files, because it would replace a symbolic link with a copy; and not the packages in build folders.
	find $(SOURCES) -name '.build*' -prune -o -type f -name '*.swift' -exec swift format --in-place {} +
	@ci/lib/check-pages --update

docs: ## Write the documentation of all products to .build/docs
	@ci/steps/docs

relay-demo: ## Send 50,000 pushes through a relay that is killed in the middle, and show what became of each (PUSHES=n)
	@Relay/demo.sh $(PUSHES)

bench: ## Measure CPU per push beside h2load and a minimal client in C; fails above the limits (PUSHES=200000, ROUNDS=5)
	Benchmarks/bench.sh

bench-instructions: ## Count the instructions of a push; fails above Benchmarks/limits.txt (UPDATE=1 writes it)
	Benchmarks/instructions.sh

release: ## Check the commit, and write VERSION=x.y.z to .build-release; does not tag
	@ci/release/release $(VERSION)

clean: ## Remove everything that was built
	rm -rf .build .build-* Relay/.build Relay/.build-* Benchmarks/.build Benchmarks/.build-* Docs/Examples/*/.build

toolchain:
	@ci/lib/check-swift
