# Windlass. Needs Go, make and git; everything else comes through Go modules at pinned versions. Tests use chromium where it is there.
# `make help` lists the targets.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

# The modules of this repository. tools holds no code of ours.
MODULES := . lab lab/parts tools/house tools/release test/differential test/kubeadmpatches test/prometheus \
	test/upstream lab/neighbours lab/kube/minors lab/kube/etcd lab/kube/coredns lab/kube/crictl

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X main.buildVersion=$(VERSION)

# The version is stamped above. Go's own stamping fails where git distrusts the checkout's owner, as in many containers.
export GOFLAGS := $(shell go env GOFLAGS) -buildvcs=false

TOOL := go tool -modfile=$(CURDIR)/tools/go.mod
BENCHTIME ?= 500ms
# Whose core manager carries out the upgrade of `make demo`: stock or windlass.
ENGINE ?= stock
# How long `make fuzz` runs each fuzz target.
FUZZTIME ?= 20s
# For how long `make long` runs batteries, and which ones; all if empty.
BUDGET ?= 80m
BATTERY ?=

# $(call each,COMMAND[,MODULES]) runs COMMAND in every module, or in those named, and stops at the first that fails.
define each
for module in $(or $(2),$(MODULES)); do \
	printf '\n==> %s: %s\n' "$$module" '$(1)'; \
	(cd "$$module" && $(1)) || { echo "FAILED in module $$module: $(1)" >&2; exit 1; }; \
done
endef

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^##@ / { print substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Use

.PHONY: demo
demo: build ## Build, start a management cluster on this machine, and upgrade a cluster in it by four minors (ENGINE=windlass: by our engine).
	bin/windlass-lab demo --engine $(ENGINE)

.PHONY: demo-in-place
demo-in-place: build ## The same upgrade with machines that stay: two updaters change them in place.
	bin/windlass-lab demo --in-place --engine $(ENGINE)

.PHONY: demo-real
demo-real: build host-tools ## Upgrade a real cluster in place on Linux hosts of this machine: kubeadm, etcd, API servers (needs root).
	bin/windlass-lab demo --real --engine $(ENGINE)

.PHONY: host
host: build host-tools ## Start a Linux host with sshd on this machine, to try `windlass updater kubeadm run` on (needs root). It runs until ^C.
	bin/windlass-lab host

.PHONY: build
build: ## Build bin/windlass, bin/windlass-lab, and bin/windlass-cri where this is Linux.
	go build -ldflags '$(LDFLAGS)' -o bin/windlass ./cmd/windlass
	cd lab && go build -ldflags '$(LDFLAGS)' -o ../bin/windlass-lab ./cmd/windlass-lab
	@[[ "$$(go env GOOS)" != linux ]] || go -C lab build -ldflags '$(LDFLAGS)' -o ../bin/windlass-cri ./cmd/windlass-cri

##@ Release

# What is released is written to dist/. docs/how-to/install.md has how to use it.
# The image's name, with the registry and without a tag.
IMAGE ?= windlass
# A file with an ECDSA P-256 private key in PEM; or $$WINDLASS_RELEASE_KEY holds the key itself.
KEY ?=
# UNSIGNED=yes writes a release without a key and a signature.
UNSIGNED ?=
RELEASE = go -C tools/release build -o $(CURDIR)/bin/release . && bin/release $(1) --version $(VERSION) --image $(IMAGE) $(if $(KEY),--key $(KEY)) $(if $(UNSIGNED),--unsigned)

.PHONY: release
release: ## Write VERSION=vX.Y.Z of IMAGE=REGISTRY/windlass to dist: binaries, image, SBOMs, manifests, chart, checksums signed with KEY=FILE.
	$(call RELEASE,all)

.PHONY: image
image: ## Write the binaries and the image alone to dist, of any commit.
	$(call RELEASE,image)

.PHONY: push
push: ## Push the image in dist to IMAGE=REGISTRY/windlass, with the tag VERSION.
	$(call RELEASE,push)

##@ Test

# Results that were cached never count here: the tests run again (-count=1).
.PHONY: test
test: plane chromium host-tools shellcheck ## Run every test: unit, property, sweep, CLI, differential, and e2e on the dev plane.
	$(call jobs,$(UNIT_JOBS) $(E2E_JOBS))

# Tests look at pages in a browser. Where it cannot be installed they are skipped, but not in CI.
.PHONY: chromium
chromium: ## Install chromium for the tests, where it is missing and this is Debian's root.
	@if command -v chromium chromium-browser google-chrome >/dev/null; then exit 0; fi; \
	if [[ $$(id -u) -eq 0 ]] && command -v apt-get >/dev/null; then \
		echo 'Installing chromium, to look at pages with.'; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; } && exit 0; \
	fi; \
	echo 'There is no chromium, so no test looks at pages. Install it to have that tested too.' >&2; \
	[[ "$${CI:-}" != true ]]

# Linux hosts for tests are namespaces of this machine with a real sshd; kube-proxy on them needs iptables. Where they are
# unavailable, the tests are skipped, but not in CI.
HOST_TOOLS := openssh-server iproute2 procps iptables
.PHONY: host-tools
host-tools: ## Install what test hosts need (openssh-server, iproute2, procps, iptables), where it is missing and this is Debian's root.
	@if [[ $$(command -v /usr/sbin/sshd ip pgrep iptables | wc -l) -eq 4 ]]; then exit 0; fi; \
	if [[ $$(id -u) -eq 0 ]] && command -v apt-get >/dev/null; then \
		echo 'Installing $(HOST_TOOLS), for the hosts of tests.'; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(HOST_TOOLS) >/dev/null; } && exit 0; \
	fi; \
	echo 'One of $(HOST_TOOLS) is missing, so no test runs on Linux hosts. Install them to have that tested too.' >&2; \
	[[ "$${CI:-}" != true ]]

# Scripts that run on hosts are checked by shellcheck. Where it cannot be installed that test is skipped, but not in CI.
.PHONY: shellcheck
shellcheck: ## Install shellcheck for the tests of scripts, where it is missing and this is Debian's root.
	@if command -v shellcheck >/dev/null; then exit 0; fi; \
	if [[ $$(id -u) -eq 0 ]] && command -v apt-get >/dev/null; then \
		echo 'Installing shellcheck, to check the scripts for hosts with.'; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends shellcheck >/dev/null; } && exit 0; \
	fi; \
	echo 'There is no shellcheck, so no test checks the scripts for hosts with it. Install it to have that tested too.' >&2; \
	[[ "$${CI:-}" != true ]]

# Jobs run at the same time where they do not disturb each other: docs/testing.md has the rules.
# `make NAME` runs one of them, alone. $(call jobs,NAMES) runs them in the order below, and ends with
# what the failed ones printed.
JOB = .ci/job $@
# For jobs that need processors, and whose tests may wait for them.
LOW = nice -n 19 .ci/job $@
# For jobs beside tests that compare durations: they get the processors that nothing else wants.
IDLE = $(if $(shell command -v chrt),chrt --idle 0,nice -n 19) .ci/job $@
define jobs
@rm -rf bin/log; $(MAKE) --no-print-directory --jobs IN_ORDER=yes $(1) || .ci/failures
endef
LINT_JOBS := lint-root lint-lab lint-rest
UNIT_JOBS := unit-root unit-lab unit-parts unit-house unit-release unit-rules differential kubeadmpatches \
	upstream
E2E_JOBS := e2e-chain e2e-inplace e2e-engine e2e-pools e2e-small e2e-seeds e2e-annotated \
	e2e-devplane e2e-hosts e2e-real e2e-kubeadm e2e-processes trust-guard trust kubelets
.PHONY: $(LINT_JOBS) $(UNIT_JOBS) $(E2E_JOBS)
ifdef IN_ORDER
after = $(filter $(1),$(MAKECMDGOALS))
# Linters come first, because they fail fast. Then two tests that compare durations, and mostly wait,
# with nothing beside them but what takes idle processors.
e2e-chain e2e-inplace kubelets: $(call after,$(LINT_JOBS))
unit-root: $(call after,kubelets $(LINT_JOBS))
# What needs processors, one job after another. Nothing waits for unit-root: with empty caches, kubelets
# and unit-root take long, and only idle processors.
trust-guard: $(call after,e2e-chain e2e-inplace $(LINT_JOBS))
trust: $(call after,trust-guard e2e-chain e2e-inplace $(LINT_JOBS))
unit-lab: $(call after,e2e-chain e2e-inplace trust $(LINT_JOBS))
unit-parts unit-house unit-release unit-rules differential kubeadmpatches upstream: $(call after,unit-lab)
# Then two planes at a time. Those of devplane, hosts, real and trust/guard may take the same ports
# of this machine.
e2e-engine e2e-seeds: $(call after,e2e-chain e2e-inplace)
e2e-pools: $(call after,e2e-engine)
e2e-small: $(call after,e2e-pools)
e2e-annotated: $(call after,e2e-seeds)
e2e-devplane: $(call after,e2e-annotated trust-guard)
e2e-hosts: $(call after,e2e-devplane kubelets)
e2e-real: $(call after,e2e-hosts)
e2e-kubeadm: $(call after,e2e-small kubelets)
e2e-processes: $(call after,trust kubelets)
endif

.PHONY: test-unit
test-unit: build chromium host-tools shellcheck ## Run the tests that need no cluster, in all modules.
	$(call jobs,$(UNIT_JOBS))

# The linter vets all packages already (-vet=off). The tests run the programs in bin. unit-root has idle processors only, so its limit is long.
UNIT := WINDLASS_PROGRAMS=$(CURDIR)/bin go test -count=1 -vet=off -timeout 30m
unit-root:
	@$(IDLE) env $(UNIT) ./...
# Packages that start planes or compile Kubernetes are jobs of their own.
unit-lab:
	@packages=$$(go -C lab list ./... | grep -v -E '/lab/(test/e2e|test/trust|test/wire|kube)(/|$$)'); \
	$(LOW) env -C lab $(UNIT) $$packages
unit-parts:
	@$(LOW) env -C lab/parts $(UNIT) ./...
unit-house:
	@$(LOW) env -C tools/house $(UNIT) ./...
# Alerts and dashboards, by Prometheus' own engine.
unit-rules:
	@$(LOW) env -C test/prometheus $(UNIT) ./...
unit-release:
	@$(LOW) env -C tools/release $(UNIT) ./...
differential: ## Show where upstream differs, by class.
	@$(LOW) env -C test/differential $(UNIT) -v ./...
kubeadmpatches: ## Compare what patches for kubeadm may do with what kubeadm's own code does with them.
	@$(LOW) env -C test/kubeadmpatches $(UNIT) ./...
# The tests of Cluster API's own controllers, from the module cache.
upstream: ## Run upstream's tests on our code in the place of upstream's: test/upstream/README.md.
	@$(LOW) env -C test/upstream $(UNIT) ./...

# The version of Cluster API that `make upstream-diff` compares with.
V ?=
.PHONY: upstream-diff
upstream-diff: ## Print what Cluster API V=vX.Y.Z changed in the files that we replace, and run its tests on our code.
	@[[ -n "$(V)" ]] || { echo 'Which version? Fix: make upstream-diff V=vX.Y.Z' >&2; exit 1; }
	go -C test/upstream test -count=1 -vet=off -timeout 1h -v -run '^TestNextVersion$$' . -args -against=$(V)

# The dev plane is built first, for all to see: a cold build takes minutes, and no test's time limit should count them.
.PHONY: test-e2e
test-e2e: plane host-tools ## Run the e2e tests: real API server, stock Cluster API, in-memory machines, Linux hosts with real kubelets. The first run builds them.
	$(call jobs,$(E2E_JOBS))
.PHONY: plane
plane: build
	bin/windlass-lab build

# Tests need little memory. With the lab's default, the API server spends a third of its CPU time on
# garbage (GOGC).
# -v with one package at a time streams. The long form of a package takes up to 2 hours.
E2E := env WINDLASS_E2E=1 WINDLASS_PROGRAMS=$(CURDIR)/bin GOGC=200 \
	go -C lab test -count=1 -vet=off -timeout $(if $(filter 1,$(WINDLASS_LONG)),6h,30m)
e2e-chain:
	@$(JOB) $(E2E) -v ./test/e2e/chain
e2e-inplace:
	@$(JOB) $(E2E) -v ./test/e2e/inplace
e2e-seeds:
	@$(JOB) $(E2E) -v ./test/e2e/seeds
e2e-engine:
	@$(JOB) $(E2E) -v ./test/e2e/engine
e2e-pools:
	@$(JOB) $(E2E) -v ./test/e2e/pools
e2e-annotated:
	@$(JOB) $(E2E) -v ./test/e2e/annotated
# All packages that are no job of their own.
e2e-small:
	@packages=$$(go -C lab list ./test/e2e/... | grep -v -E '/(chain|inplace|engine|pools|annotated|devplane|hosts|kubeadm|real|seeds|processruntime)$$'); \
	$(JOB) $(E2E) -v -p 1 $$packages
e2e-devplane:
	@$(JOB) $(E2E) -v ./test/e2e/devplane
e2e-hosts:
	@$(JOB) $(E2E) -v ./test/e2e/hosts
# Real kubeadm on hosts, without a plane.
e2e-kubeadm:
	@$(JOB) $(E2E) -v ./test/e2e/kubeadm
e2e-processes:
	@$(JOB) $(E2E) -v ./test/e2e/processruntime
# The lab's infrastructure provider, whose machines are hosts: real control planes.
e2e-real:
	@$(JOB) $(E2E) -v ./test/e2e/real
# The product as a process beside a real API server, without controllers: each package has a small plane of its own, and no test
# measures time, so two run at once.
TRUST := ./test/wire ./test/trust/...
trust:
	@packages=$$(go -C lab list $(TRUST) | grep -v -E '/trust/guard$$'); \
	$(JOB) $(E2E) -p 2 $$packages
# Apart, because planes of other jobs may take the same ports of this machine.
trust-guard:
	@$(JOB) $(E2E) ./test/trust/guard
# What runs on Linux hosts is compiled: Kubernetes, etcd and CoreDNS of two minors.
kubelets:
	@$(IDLE) $(E2E) -v ./kube

# A failing input is kept in testdata/fuzz of its package, where `go test` runs it from then on, and printed. All targets run, also after a failure.
.PHONY: fuzz
fuzz: ## Run every fuzz target, or TARGET, for FUZZTIME each (default 20s).
	@started=$$(mktemp); trap 'rm -f "$$started"' EXIT; failed=; ran=; \
	for dir in $$(grep -rl --include='*_test.go' '^func $(or $(TARGET),Fuzz)' . | xargs -r -n 1 dirname | sort -u); do \
		targets=$$(cd "$$dir" && go test -list '^$(or $(TARGET),Fuzz.*)$$' . | sed -n '/^Fuzz/p'); \
		for target in $$targets; do \
			printf '\n==> %s: %s, %s\n' "$$dir" "$$target" '$(FUZZTIME)'; \
			touch "$$started"; ran=yes; \
			(cd "$$dir" && go test -vet=off -run '^$$' -fuzz "^$$target\$$" -fuzztime '$(FUZZTIME)' .) && continue; \
			failed+=" $$dir:$$target"; \
			find "$$dir/testdata/fuzz/$$target" -newer "$$started" -type f -printf '\nThe failing input, %p:\n' -exec cat {} \; 2>/dev/null || true; \
		done; \
	done; \
	if [[ -z "$$ran" ]]; then echo 'No fuzz target is called $(TARGET).' >&2; exit 1; fi; \
	if [[ -n "$$failed" ]]; then echo "FAILED:$$failed" >&2; exit 1; fi

# go-gremlins copies the module, and runs all tests below the package once, for their coverage and a time limit: it gets a copy without binaries and
# without tests of nested packages. A cached result would make the limit too short. Vet would count as a test that fails. Random tests use one seed,
# so that the same mutants survive each time, and do not minimize what fails.
GREMLINS := PATH="$(CURDIR)/test/mutants/path:$$PATH" GOFLAGS='$(GOFLAGS) -count=1 -vet=off' \
	RAPID_SEED=1 RAPID_SHRINKTIME=1ms RAPID_NOFAILFILE=true nice -n 19 \
	$(CURDIR)/bin/gremlins unleash --workers 1 --timeout-coefficient 20 --exclude-files / --output-statuses lt \
	--arithmetic-base=false --conditionals-boundary=false --increment-decrement=false --invert-negatives=false
.PHONY: mutants
mutants: ## Negate each condition of PACKAGE, and fail where no test notices. See test/mutants.
	@[[ -n "$(PACKAGE)" ]] || { echo 'Which package? Fix: make mutants PACKAGE=internal/gate' >&2; exit 1; }
	go build -modfile=tools/mutation/go.mod -o bin/gremlins github.com/go-gremlins/gremlins/cmd/gremlins
	@copies=$$(mktemp -d); trap 'rm -rf "$$copies"' EXIT; \
	for package in $(PACKAGE); do \
		printf '\n==> %s\n' "$$package"; \
		report="$(CURDIR)/bin/mutants/$$package.json"; mkdir -p "$$(dirname "$$report")"; rm -f "$$report"; \
		copy=$$(mktemp -d -p "$$copies"); tar -c --exclude=./bin --exclude=./.git --exclude=./.windlass . | tar -x -C "$$copy"; \
		find "$$copy/$$package" -mindepth 2 -name '*_test.go' -delete; \
		(cd "$$copy" && $(GREMLINS) --output "$$report" "./$$package"); \
		rm -rf "$$copy"; \
	done
	go run ./test/mutants bin/mutants $(PACKAGE)

.PHONY: conformance-mutants
conformance-mutants: ## Remove each requirement of docs/conformance.md from the code, or those of ID, and fail where its test does not notice.
	go run ./test/conformance mutants $(ID)

.PHONY: conformance-live
conformance-live: plane ## Remove requirements of docs/conformance.md from the programs of the lab, those of ID, and fail where their live tests do not notice.
	go run ./test/conformance live $(ID)

.PHONY: long
long: plane chromium host-tools shellcheck ## Run the long batteries that ran longest ago, until BUDGET ends: fuzz targets, mutants, race detector (needs a C compiler), long e2e. BATTERY names some.
# Not "go run": SIGTERM ends it, and not the program that it runs.
	go build -o bin/long ./test/long
	bin/long -budget $(BUDGET) $(BATTERY)

# The commit that `make house` compares with.
BASE ?= HEAD^
.PHONY: house
house: ## Print how large the product is, and how many calls lead from a cause to its effect, at BASE and now.
	@dir=$$(mktemp -d); trap 'git worktree remove --force "$$dir"' EXIT; git worktree add --detach --quiet "$$dir" $(BASE); \
	cd tools/house && go run . "$(BASE)=$$dir" "now=$(CURDIR)"

.PHONY: test-versions
test-versions: build ## Run the e2e tests that kill the extension and the manager, each start with the other of BASE's binary and this one.
	bin/windlass-lab build
	@dir=$$(mktemp -d); trap 'git worktree remove --force "$$dir"; rm -f bin/previous' EXIT; git worktree add --detach --quiet "$$dir" $(BASE); \
	(cd "$$dir" && go build -o $(CURDIR)/bin/previous ./cmd/windlass) && \
	export WINDLASS_PREVIOUS=$(CURDIR)/bin/previous && \
	$(E2E) -v -p 1 ./test/e2e/inplace ./test/e2e/annotated ./test/e2e/engine

.PHONY: bench
bench: ## Compare the speed of pkg/plan with upstream's planner, and measure the simulator on fleets of 100 to 100,000 nodes.
	cd test/differential && go test -run '^TestSpeed$$' -count=1 -v -benchtime $(BENCHTIME) ./... -args -speed
	go test -run '^$$' -bench . -benchtime 1x ./internal/simulate/fleet

# Flags of the measurement: MEASURE='-pool-parts pairs,replaced' or '-fleet 200', for example.
MEASURE ?=
ENGINES := $(CURDIR)/bin/bench-engines
.PHONY: bench-engines
bench-engines: plane ## Print a table of what groups of workers cost with stock's engine and with Windlass'. See docs/performance.md. Takes an hour.
	@env WINDLASS_BENCH=1 WINDLASS_PROGRAMS=$(CURDIR)/bin GOGC=200 go -C lab test -count=1 -vet=off -timeout 4h -v \
		-run '^TestPools$$' ./test/e2e/bench -args -pools-table $(ENGINES).md -pools-json $(ENGINES).json $(MEASURE) \
		>$(ENGINES).log 2>&1 || { cat $(ENGINES).log >&2; exit 1; }; cat $(ENGINES).md

##@ Keep in order

.PHONY: lint
lint: lint-texts ## Check words, README length, scripts (shellcheck) and all modules (golangci-lint).
	$(call jobs,$(LINT_JOBS))

.PHONY: lint-texts
lint-texts: shellcheck
	go run ./test/words .
	@! command -v shellcheck >/dev/null || shellcheck $$(git ls-files '*.sh') .ci/*
	@lines=$$(wc -l <README.md); if ((lines > 150)); then echo "README.md has $$lines lines. Fix: at most 150; move the rest to docs/." >&2; exit 1; fi

# GOGC=200 saves a third of the linter's CPU time, for a fifth more memory: 8 GiB at most.
LINT := env GOGC=200 $(TOOL) golangci-lint run --allow-serial-runners -c $(CURDIR)/.golangci.yml ./...
lint-root:
	@$(LOW) $(LINT)
lint-lab:
	@$(LOW) env -C lab $(LINT)
# Without lab/kube/minors: one small program on top of all of a kubelet, which the linter would load
# whole, for minutes.
lint-rest:
	@$(LOW) bash -ec 'for module in lab/parts tools/house tools/release test/differential test/kubeadmpatches \
		test/prometheus test/upstream; do \
		echo "$$module"; (cd "$$module"; $(LINT)); done'

# What .ci/run runs when everything is built.
.PHONY: check
check: lint-texts plane chromium host-tools shellcheck ## Run the linters and every test, side by side.
	$(call jobs,$(LINT_JOBS) $(UNIT_JOBS) $(E2E_JOBS))

.PHONY: generate
generate: ## Regenerate code and CRDs.
	@$(call each,go generate ./...,. lab)

.PHONY: tidy-check
tidy-check: ## Check that every go.mod and go.sum is tidy.
	@$(call each,go mod tidy -diff)
	@for file in lab/kube/*/v*.mod; do (cd "$${file%/*}" && go mod tidy -modfile="$${file##*/}" -diff); done
	cd tools && go mod tidy -diff
	cd tools/mutation && go mod tidy -diff

.PHONY: clean
clean: ## Remove what was built and the dev plane's state. Go's caches stay.
	@for state in lab demo; do \
		if [ -d ".windlass/$$state" ]; then (cd lab && go run ./cmd/windlass-lab down --state-dir "../.windlass/$$state"); fi; \
	done
	rm -rf bin dist .windlass
