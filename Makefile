# Each target installs the system packages that it needs and that are missing (.ci/install-packages).

.DEFAULT_GOAL := help
.PHONY: help demo build test lint format bench clean toolchain

SOURCES := Package.swift Sources Tests Benchmarks

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

demo: toolchain ## Build the tool and let it push to a simulated APNs
	@.ci/install-packages build
	swift build --product apns
	@.build/debug/apns demo

build: toolchain ## Build everything, optimised
	@.ci/install-packages build
	swift build -c release

test: toolchain ## Run all tests
	@.ci/install-packages test
	swift test

lint: toolchain ## Check the form of the sources
	swift format lint --strict --recursive $(SOURCES)

format: toolchain ## Bring the sources into form
	swift format --in-place --recursive $(SOURCES)

bench: toolchain ## Measure CPU per push beside h2load (PUSHES=200000, ROUNDS=5)
	@.ci/install-packages bench
	Benchmarks/bench.sh

clean: ## Remove what was built
	rm -rf .build Benchmarks/.build

toolchain:
	@.ci/check-swift
