# Each target installs the system packages that it needs and that are missing (.ci/install-packages).

.DEFAULT_GOAL := help
.PHONY: help demo build test test-thorough test-traits test-sealing test-tsan test-asan chaos chaos-long soak fuzz fuzz-web-push sbom package test-package release release-twice network-lab test-page test-openapi test-h2spec test-examples test-relay test-webpush test-fleet relay-programs relay-demo webpush-demo relay-demo-fleet relay-bench lint format docs coverage-table api-breakage bench bench-build bench-instructions bench-goals bench-report check-readme example check-alerts clean toolchain

SOURCES := Package.swift Sources Tests Benchmarks Docs/Examples Relay/Package.swift Relay/Sources Relay/Tests

# Unoptimised: ready soonest, and `make test` goes on from it.
TOOL := .build/debug/apns
EXAMPLE := Docs/Examples/NotificationService

help: ## Show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26

demo: $(TOOL) ## Build the tool and let it push to a simulated APNs
	@$(TOOL) demo

# By the files' times: `swift build` takes seconds to find that there is nothing to do.
$(TOOL): Package.swift $(shell find Sources -type f)
	@.ci/check-swift
	@.ci/install-packages build
	.ci/build $@ --product apns
	@touch $@

build: toolchain ## Build everything, optimised
	@.ci/install-packages build
	swift build -c release

test: toolchain ## Run all tests
	@.ci/install-packages test
	@.ci/promtool > /dev/null
	@.ci/test

test-thorough: toolchain ## Run all tests in their long form, ten times the random histories (TEST_SCALE=n)
	@.ci/install-packages test
	@.ci/promtool > /dev/null
	@TEST_SCALE=$(or $(TEST_SCALE),10) .ci/test

test-traits: toolchain ## Run the tests of what the traits add: APNSSealing, swift-crypto beside OpenSSL, swift-configuration
	@.ci/install-packages build
	.ci/test-traits

test-sealing: test-traits

test-tsan: toolchain ## Run all tests under the Thread Sanitizer
	@.ci/install-packages test
	@.ci/promtool > /dev/null
	.ci/test-tsan

test-asan: toolchain ## Run all tests under the Address Sanitizer, and look for leaks
	@.ci/install-packages test
	@.ci/promtool > /dev/null
	.ci/test-asan

chaos: toolchain ## Random faults against 200,000 pushes, and 300 lives of a client in storms (SEED=n repeats one; CHAOS_PUSHES=n, STORMS=n)
	@.ci/install-packages test
	swift build --build-tests
	CHAOS_PUSHES=$(or $(CHAOS_PUSHES),200000) STORMS=$(or $(STORMS),300) $(if $(SEED),SEED=$(SEED)) \
		timeout 1800 swift test --no-parallel --skip-build --filter '^APNSPoolTests\.(Chaos|LifecycleStorm)Tests'

chaos-long: toolchain ## Random faults against ten million pushes; about an hour (SEED=n repeats one)
	@.ci/install-packages test
	swift build --build-tests
	CHAOS_PUSHES=$(or $(CHAOS_PUSHES),10000000) $(if $(SEED),SEED=$(SEED)) \
		timeout 14400 swift test --no-parallel --skip-build --filter '^APNSPoolTests\.ChaosTests'

soak: toolchain ## Mixed load with faults for HOURS=2; fails if memory, descriptors, threads or delays grow
	@.ci/install-packages build
	swift build -c release --package-path Benchmarks
	@# Freed memory in the caches of threads would count as used, a quarter of a MiB for each thread.
	GLIBC_TUNABLES=glibc.malloc.tcache_count=0 Benchmarks/.build/release/throughput soak --hours $(or $(HOURS),2)

fuzz: toolchain ## Let libFuzzer choose the inputs of the fuzz targets, each for SECONDS=60 (TARGETS="settings …"; UPDATE=1 keeps new inputs)
	@.ci/install-packages test
	.ci/fuzz $(or $(SECONDS),60) $(TARGETS)

fuzz-web-push: toolchain ## Let libFuzzer choose requests for Web Push, for SECONDS=60
	@.ci/install-packages relay
	.ci/fuzz-web-push $(or $(SECONDS),60)

network-lab: toolchain ## Test the client over bad networks, in network namespaces of Linux; needs root (NETWORK_LAB=short, ONLY=text)
	@.ci/network-lab

test-page: $(TOOL) ## Test the simulator's page in headless Chromium, which is installed where it is missing (PAGE_PUSHES=100000)
	@.ci/install-packages build
	.ci/test-page

test-openapi: $(TOOL) ## Test the simulator's control API against its OpenAPI document with Schemathesis (SECONDS=30)
	@.ci/install-packages build
	.ci/test-openapi $(or $(SECONDS),30)

test-h2spec: $(TOOL) ## Test the simulator's HTTP/2 with h2spec, where it is installed
	@.ci/test-h2spec

test-examples: $(TOOL) ## Run Docs/Examples/OtherLanguages: curl, Python, Node, and Go where it is installed
	@.ci/install-packages test
	Docs/Examples/OtherLanguages/try.sh

test-relay: toolchain ## Test the relay: its queue, its API, its page in Chromium, and kills (RELAY_KILLS=50, SEED=n)
	@.ci/install-packages relay
	.ci/test-relay

# The relay, and the simulator that it pushes to: both in one build folder, which shares what they have in common.
relay-programs: toolchain
	@.ci/install-packages relay
	.ci/build Relay/.build/debug/apns-relay --package-path Relay --product apns-relay
	.ci/build Relay/.build/debug/apns --package-path Relay --product apns

test-webpush: relay-programs ## Let pywebpush and a sender like Mastodon's push through the relay, and decrypt their messages
	.ci/test-webpush

test-fleet: toolchain ## Test relays that share a queue in PostgreSQL: the queue, and fleets whose relays, database and networks fail (FLEET_KILLS=4)
	@.ci/install-packages relay
	.ci/test-fleet

relay-demo: relay-programs ## 50,000 pushes through a relay that is killed in the middle, and what became of each (PUSHES=n)
	@Relay/demo.sh $(PUSHES)

webpush-demo: relay-programs ## pywebpush sends to a virtual device through a relay; the simulator's page shows the decrypted texts
	Relay/demo-webpush.sh

relay-demo-fleet: relay-programs ## 200,000 pushes through three relays while relays and the database are killed in turn (PUSHES=n)
	@Relay/demo-fleet.sh $(PUSHES)

relay-bench: toolchain ## Measure the relay beside the harness: drain, intake over the batch size, memory (PUSHES=200000, QUEUED=5000000)
	@.ci/install-packages relay
	Relay/bench.sh

example: $(TOOL) ## Build, test and try Docs/Examples/NotificationService: load, an announcement, SIGTERM in the middle, nothing lost
	@.ci/install-packages test example
	.ci/build $(EXAMPLE)/.build/debug/NotificationServicePackageTests.xctest --package-path $(EXAMPLE) \
		--product NotificationServicePackageTests
	swift test --package-path $(EXAMPLE)
	$(EXAMPLE)/try.sh

check-alerts: ## Test the alert rules of Docs/Monitoring with Prometheus' promtool, which is fetched where it is missing
	.ci/check-alerts

lint: toolchain ## Check the format of the sources, and file names, retired names, file length, imports and the pages (.ci/lint)
	@.ci/install-packages lint
	swift format lint --strict --recursive $(SOURCES)
	.ci/lint

format: toolchain ## Format the sources
	@# Only regular files, because it would replace a symbolic link with a copy; and not the packages in build folders.
	find $(SOURCES) -name '.build*' -prune -o -type f -name '*.swift' -exec swift format --in-place {} +

docs: toolchain ## Write the documentation of all products to .build/docs; fails for an undocumented symbol or a dead link
	@.ci/install-packages build
	.ci/docs APNSPool APNSModel APNSSimulator APNSDevices APNSTesting APNSSealing SupervisedPool

sbom: toolchain ## Write a bill of materials in CycloneDX form to .build/sbom.cdx.json, and validate it
	@.ci/install-packages build
	.ci/sbom --check

package: toolchain ## Build Debian packages and a tarball of apns and apns-relay in .build-package/out; about 10 minutes the first time
	@.ci/install-packages package
	.ci/package

test-package: package ## Install, upgrade, remove and purge the packages in a fresh Debian (debootstrap); needs root
	PACKAGE_VERSION=9.9.9 .ci/package .build-package/upgrade > .build-package/upgrade.log
	.ci/test-package .build-package/out .build-package/upgrade

release: toolchain ## Check the commit, and write VERSION=x.y.z to .build-release; does not tag (SKIP_RUN=1 for a trial, RELEASE_URL=…)
	@.ci/install-packages package
	.ci/release $(VERSION)

release-twice: toolchain ## Write VERSION=x.y.z here and in a clone, and compare the sums
	@.ci/install-packages package
	.ci/release-twice $(VERSION)

check-readme: toolchain ## Run what the README and two pages show, in new packages; some minutes the first time
	@.ci/install-packages build
	.ci/readme

coverage-table: ## Write Docs/Coverage.md: APNs' keys, headers, types and reasons with their tests (CHECK=1 compares)
	@.ci/install-packages test
	.ci/coverage-table $(if $(CHECK),--check)

api-breakage: toolchain ## List what of the public API is gone or changed since BASE, a tag or commit
	@.ci/install-packages build
	.ci/api-breakage $(BASE)

bench: toolchain ## Measure CPU per push beside h2load and a minimal client in C; fails above the limits (PUSHES=200000, ROUNDS=5)
	@.ci/install-packages bench
	Benchmarks/bench.sh

bench-build: toolchain ## Measure what building costs a user, beside async-http-client: packages, C objects, CPU time, size, memory
	@.ci/install-packages build
	Benchmarks/build.sh

bench-instructions: toolchain ## Count the instructions of a push; fails above Benchmarks/limits.txt (UPDATE=1 writes it)
	@.ci/install-packages bench
	Benchmarks/instructions.sh

bench-goals: toolchain ## Measure memory, latency beside bulk and the like; fails if a goal is missed (ONLY=memory,…)
	@.ci/install-packages goals
	swift build -c release --package-path Benchmarks
	Benchmarks/.build/release/throughput goals $(if $(ONLY),--only $(ONLY))

bench-report: toolchain ## Measure everything and write Docs/Benchmarks.md; about 13 minutes, on a quiet machine
	@.ci/install-packages bench
	Benchmarks/report.sh

clean: ## Remove what was built
	rm -rf .build Relay/.build .build-package .build-bootstrap .build-release .build-sbom .build-page .build-openapi .build-examples .build-sealing .build-asan .build-tsan Benchmarks/.build Benchmarks/.build-micro $(EXAMPLE)/.build

toolchain:
	@.ci/check-swift
