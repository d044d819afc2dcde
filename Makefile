# Targets for work on Holdfast. `make help` lists them.

# The tools that are no part of the product (buf, protoc-gen-doc, golangci-lint, govulncheck, grpcurl) are pinned in a
# module file of their own: their several hundred dependencies would otherwise be among the product's.
tool := go tool -modfile=scripts/tools/go.mod

version  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
revision ?= $(shell git rev-parse --quiet --verify HEAD 2>/dev/null || echo unknown)
ldflags  := -s -w -X main.version=$(version) -X main.revision=$(revision)

# Settings of holdfast dev for `make run`, and flags for `make test`, `make bench` and others, such as: make run args=--ephemeral
args ?=
# Which packages `make test` works on.
pkg ?= ./...

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-13s %s\n", $$1, $$2}' Makefile

.PHONY: run
run: ## Start everything on this machine and serve (args='--ephemeral --grpc-addr=127.0.0.1:0 --http-addr=127.0.0.1:0': keep nothing, on any free ports)
	@scripts/setup
	@$(MAKE) --no-print-directory build
	@exec bin/holdfast dev $(args)

.PHONY: test
test: $(if $(filter ./...,$(pkg)),test-deploy test-observe) ## Run every test, with the race detector (pkg=./store/... args=-v to narrow or widen)
	@scripts/setup test
	go test -race -tags failpoints -timeout 20m $(args) $(pkg)

.PHONY: test-deploy
test-deploy: ## Test compose.yaml and the Helm chart, without Docker and Kubernetes
	@scripts/setup
	cd deploy && go vet ./... && go test $(args) ./...

# Prometheus's engine has a module file of its own, for the same reason as the tools.
.PHONY: test-observe
test-observe: ## Test the alerts and the dashboard on Prometheus's engine, with what real servers show
	@scripts/setup test
	cd deploy/prometheus && go test -timeout 10m $(args) .

.PHONY: lint
lint: third_party ## Check the Go code, the proto files and the scripts' syntax
	$(tool) buf lint
	$(tool) buf format --diff --exit-code proto
	$(tool) golangci-lint run
	cd deploy && go tool -modfile=../scripts/tools/go.mod golangci-lint run
	cd deploy/prometheus && go tool -modfile=../../scripts/tools/go.mod golangci-lint run
	for script in .ci/run scripts/examples scripts/image scripts/image-check scripts/image-exec scripts/protovalidate scripts/setup \
		examples/grpcurl/tour examples/python/generate; do bash -n $$script || exit; done

.PHONY: generate
generate: third_party ## Generate the Go code of the proto files, and docs/api.md
	$(tool) buf generate

.PHONY: build
build: ## Build the commands into bin/
	@scripts/setup go
	@echo 'building bin/holdfast and bin/launch (the first time takes a minute or two)'
	@CGO_ENABLED=0 go build -trimpath -ldflags '$(ldflags)' -o bin/ ./cmd/holdfast ./cmd/launch

.PHONY: bench
bench: ## Measure everything and write docs/performance.md, for an hour or more (args='--only launch' to choose)
	@scripts/setup test
	go run ./scripts/performance $(args)

.PHONY: faults
faults: ## Break what servers stand on, and check every promise, for two minutes (args='--duration 10m --seed 7': at random)
	@scripts/setup test
	go run ./cmd/faults $(or $(args),--short)

.PHONY: examples
examples: third_party ## Run the examples (examples/), and compare what they print with what their READMEs show (args=node: one of them)
	@scripts/setup examples
	@$(MAKE) --no-print-directory build
	@scripts/examples $(args)

.PHONY: fuzz
fuzz: ## Feed random bytes to what decodes them: 50,000 inputs each (args=1000000x for more)
	@scripts/setup go
	go test ./store -run '^$$' -fuzz '^FuzzParseHoldID$$' -fuzztime $(or $(args),50000x)
	go test ./server -run '^$$' -fuzz '^FuzzRequests$$' -fuzztime $(or $(args),50000x)
	go test ./store/holds -run '^$$' -fuzz '^FuzzReplies$$' -fuzztime $(or $(args),50000x)

.PHONY: image
image: ## Build the container image, with the engine that is there
	@scripts/image '$(version)' '$(revision)'

.PHONY: image-check
image-check: ## Build the image for amd64 and arm64 without an engine, run it and try it (Linux, as root; some minutes the first time)
	@scripts/image-check '$(version)' '$(revision)'

# protovalidate's proto files, which ours import.
.PHONY: third_party
third_party:
	@scripts/setup go
	@scripts/protovalidate
