# Everything needs the Go toolchain only, but for `make xcaddy`, which needs xcaddy, the race detector, which needs a C
# compiler, and tests, which need redis-server. Tools are pinned here and kept in .cache.

GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT := .cache/bin/golangci-lint-$(GOLANGCI_LINT_VERSION)

# Tells of each package as it ends, and of all failures at the end. With RERUNS, a file, what failed runs once more, unless
# more than five tests did or one was a data race, a panic or a time-out; the file then has what that was.
GOTESTSUM := go run gotest.tools/gotestsum@v1.13.0 --format pkgname --format-hide-empty-pkg \
	$(if $(RERUNS),--rerun-fails=1 --rerun-fails-max-failures=5 --rerun-fails-abort-on-data-race --rerun-fails-run-root-test \
	--rerun-fails-report='$(RERUNS)')

PROVIDERS := $(wildcard plugins/*/cmd/fareway-provider-*)
EXAMPLES := $(dir $(wildcard examples/*/go.mod))

# What examples/cluster runs: these programs, and Debian's packages.
CLUSTER := bin/fareway bin/fake-upstream .ci/cluster

# What `make bench`, `make soak`, `make clients`, `make browser` and `make fuzz` run: a pattern of names, packages, and a time for each target.
BENCH ?= Gateway|HoldSettle
BENCHTIME ?= 2s
SOAK ?= Soak
RUN ?= .
PKG ?= ./...
FUZZTIME ?= 20s

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# Without the symbols of a debugger, which are a quarter of the program; a stack trace has its names and lines all the same.
# `make build BUILD=-trimpath` keeps them.
BUILD ?= -trimpath -ldflags='-s -w'

.PHONY: build
build: bin/fareway ## build bin/fareway and the providers as separate binaries
	$(if $(PROVIDERS),CGO_ENABLED=0 go build $(BUILD) -o bin/ $(addprefix ./,$(PROVIDERS)))

.PHONY: run
run: bin/fareway ## build bin/fareway, then start a gateway to try (ARGS="--listen :9000 --data DIR" are handed on)
	@exec bin/fareway gateway up $(ARGS)

# Go knows what is to be done; -v names each package that is compiled, so that the first build shows how far it is.
.PHONY: bin/fareway
bin/fareway:
	@echo 'Building bin/fareway. The first time Go fetches what it is made of (see go.mod) and compiles it, which takes'
	@echo 'some minutes; what it names is what it does. Afterwards it takes seconds.'
	@CGO_ENABLED=0 go build -v $(BUILD) -o bin/fareway ./caddy

# Where `make install` puts it: PREFIX=~/.local needs no root, DESTDIR is for packages.
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: install
install: bin/fareway ## build bin/fareway and install it in PREFIX/bin (PREFIX=/usr/local, below DESTDIR)
	install -d '$(DESTDIR)$(PREFIX)/bin'
	install -m 0755 bin/fareway '$(DESTDIR)$(PREFIX)/bin/fareway'

# What is released, below dist/: for each platform an archive, for Linux a Debian package as well, an image for all of
# those, the chart, a list of what each program is made of (SBOM), and the digests of all. The same commit gives the same
# digests, on whatever machine and in whatever folder: Go stamps version and commit, and the commit's time is all times.
# Tools are pinned in examples/public/go.mod, so that the product's has none of their dependencies.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/arm64
DIST ?= dist

.PHONY: release
release: ## build archives, Debian packages, image, chart, SBOMs and digests below DIST (PLATFORMS="linux/amd64 ...")
	@.ci/release '$(DIST)' $(PLATFORMS)

.PHONY: deb
deb: ## build the Debian packages below DIST (PLATFORMS=linux/amd64)
	@RELEASE=deb .ci/release '$(DIST)' $(filter linux/%,$(PLATFORMS))

.PHONY: check-release
check-release: ## build what is released twice and compare, install, upgrade, remove and purge the package, run the image (root on Debian)
	cd examples/public && go test -tags release -count 1 -timeout 30m -v -run 'TestRelease|TestPackage|TestImage' .

# The tests of what nodes share start a server of their own, and those of examples/observe a Prometheus.
test race soak: | .cache/bin/redis-server .cache/bin/promtool

.cache/bin/redis-server:
	@.ci/redis

.cache/bin/promtool:
	@.ci/prometheus

# Tests start PostgreSQL servers of their own, of this machine's packages.
.PHONY: postgresql
postgresql:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq >/dev/null && apt-get install -qq -y --no-install-recommends postgresql >/dev/null; \
	else echo 'PostgreSQL is not installed; tests of store "postgres" need it: apt-get install postgresql'; exit 1; fi

.PHONY: test
test: postgresql ## run all tests (or those of PKG), and those of the examples that are modules of their own
	$(GOTESTSUM) --packages '$(PKG)' -- -vet=off -timeout 30m
	@for dir in $(EXAMPLES); do (set -x; cd $$dir && go test -timeout 30m ./...); done

.PHONY: race
race: postgresql ## run all tests (or those of PKG) under the race detector
	CGO_ENABLED=1 $(GOTESTSUM) --packages '$(PKG)' -- -race -vet=off -timeout 20m

.PHONY: check
check: check-fmt check-vet check-lint check-generate check-tidy check-deps ## check everything that can be known without running it

.PHONY: check-fmt
check-fmt:
	@files=$$(find . -name '*.go' -not -path './.cache/*' -exec gofmt -l {} +); \
	if [ -n "$$files" ]; then echo "not formatted, run \`make fmt\`:"; echo "$$files"; exit 1; fi

# The tests behind build tags are checked too.
.PHONY: check-vet
check-vet:
	go vet -tags soak,clients,browser ./...
	go vet -tags nemesis ./examples/cluster/...

.PHONY: check-lint
check-lint: $(GOLANGCI_LINT)
	$(GOLANGCI_LINT) run ./...

# Compares the tree before and after, so that it also works where there are changes not yet committed.
.PHONY: check-generate
check-generate:
	@mkdir -p .cache
	@$(call digests) >.cache/before
	go generate ./...
	@$(call digests) >.cache/after
	@diff .cache/before .cache/after || { echo 'generated files were not up to date and are now: look at them and commit them'; exit 1; }

digests = find . -type f -not -path './.git/*' -not -path './.cache/*' -not -path './bin/*' -not -path './dist/*' -not -path './data/*' -print0 | sort -z | xargs -0 sha256sum

.PHONY: check-tidy
check-tidy:
	go mod tidy -diff

# The author of a plugin must not have to link a web server.
.PHONY: check-deps
check-deps:
	@deps=$$(go list -deps ./plugins/provider ./plugins/llm); \
	if grep caddyserver <<<"$$deps"; then echo 'plugins/provider and plugins/llm must not depend on Caddy'; exit 1; fi

.PHONY: bench
bench: ## print what a request and a settlement cost (BENCH=. for everything, PKG=packages BENCHTIME=2s)
	go test -p 1 -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) $(PKG) | sed '/no test files/d; /^PASS$$/d; /^ok /d'

# Somebody else's load generator, pinned. It is cloned unless LOADGEN is the folder of a checkout (or of a bare copy).
LOADGEN_COMMIT := 659eb30c3c0f4497ae3b6aa4b0012cf5f4b9e4cf
LOADGEN ?= https://github.com/ENTERPILOT/ai-gateway-reproducible-benchmark
LOADGEN_DIR := .cache/loadgen/$(LOADGEN_COMMIT)

.PHONY: compare
compare: bin/fareway $(LOADGEN_DIR)/loadgen ## run a public load generator against bin/fareway, a plain proxy and others (ARGS="-peer 'NAME URL [MODEL [KEY [PID]]]' -conns 10", LOADGEN=checkout)
	@go run ./caddy/internal/compare -tools $(LOADGEN_DIR) -fareway bin/fareway $(ARGS)

$(LOADGEN_DIR)/loadgen:
	@rm -rf $(LOADGEN_DIR)
	git clone --quiet --no-checkout '$(LOADGEN)' $(LOADGEN_DIR)/source
	git -C $(LOADGEN_DIR)/source checkout --quiet $(LOADGEN_COMMIT)
	cd $(LOADGEN_DIR)/source/remote/bench-tools && CGO_ENABLED=0 GOFLAGS= go build -o ../../.. ./mock ./loadgen

.PHONY: soak
soak: $(CLUSTER) ## run the long tests, those behind the tag `soak`, half an hour or so (SOAK=pattern PKG=packages)
	go test -tags soak -count 1 -p 1 -timeout 0 -v -run '$(SOAK)' $(PKG)

.PHONY: clients
clients: build .cache/clients/node/.installed .cache/clients/agents/.installed ## run real clients and coding agents against bin/fareway, write .cache/clients/board.md (RUN=pattern; needs npm and Chromium, as root on Debian it installs them)
	$(GOTESTSUM) --packages ./examples/clients/... -- -tags clients -count 1 -timeout 30m -parallel 6 -run '$(RUN)'

.PHONY: browser
browser: .cache/clients/node/.installed ## drive Chromium through the portal, with axe on every page, and leave pictures in .cache/browser (RUN=pattern; needs npm and Chromium, as root on Debian it installs them)
	$(GOTESTSUM) --packages ./modules/portal/browsertest -- -tags browser -count 1 -timeout 10m -run '$(RUN)'

.cache/clients/%/.installed: examples/clients/%/package-lock.json examples/clients/install.sh
	examples/clients/install.sh $*

.PHONY: .ci/cluster
.ci/cluster:
	@$@

.PHONY: bin/fake-upstream
bin/fake-upstream:
	@CGO_ENABLED=0 go build $(BUILD) -o bin/ ./plugins/providertest/upstream/cmd/fake-upstream

.PHONY: cluster
cluster: $(CLUSTER) ## show three gateways on one ledger, and what happens when machines die (root; ARGS=--keep leaves it up)
	@CGO_ENABLED=0 go build $(BUILD) -o bin/ ./examples/cluster/cmd/cluster
	@exec bin/cluster $(ARGS)

.PHONY: systemd
systemd: bin/fareway ## try the service's units with a real systemd, on a copy of this system that nothing of stays (root)
	@unshare --mount --pid --fork --kill-child --net --uts --ipc --cgroup examples/public/systemd/boot.sh \
	  .cache/systemd bin/fareway examples/public/systemd/trial.sh

.PHONY: nemesis
nemesis: $(CLUSTER) ## break that cluster in ten ways and compare the books, four minutes (root; ARGS='-faults primary' chooses)
	go test -tags nemesis -count 1 -timeout 20m -v ./examples/cluster/nemesis $(if $(ARGS),-args $(ARGS))

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (default 20s)
	@for pkg in $$(go list $(PKG)); do \
	  for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    (set -x; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg); \
	  done; \
	done

.PHONY: fmt
fmt: ## format all Go files
	@find . -name '*.go' -not -path './.cache/*' -exec gofmt -w {} +

.PHONY: generate
generate: ## write generated files again
	go generate ./...

.PHONY: models
models: .cache/clients/node/.installed ## write the list of client libraries' model names again, after a library was updated (needs npm)
	go generate ./modules/internal/routing

.PHONY: xcaddy
xcaddy: ## build bin/fareway-xcaddy from xcaddy.json with xcaddy
	@command -v xcaddy >/dev/null || { echo 'xcaddy is not installed: see https://github.com/caddyserver/xcaddy, or use `make build`'; exit 1; }
	xcaddy build $$(go run ./caddy/internal/xcaddyflags) --output bin/fareway-xcaddy

.PHONY: clean
clean: ## remove what was built and the pinned tools; data stays
	rm -rf bin dist .cache

$(GOLANGCI_LINT):
	@mkdir -p .cache/bin
	GOFLAGS= GOBIN=$(CURDIR)/.cache/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv .cache/bin/golangci-lint $@
