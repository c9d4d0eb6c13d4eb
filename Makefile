# Every target is one command; `make test` is what continuous integration runs.
PLUGINS ?= $(CURDIR)/.plugins
XLA := GOMLX_BACKEND=xla:cpu PJRT_PLUGIN_LIBRARY_PATH=$(PLUGINS)
BENCH ?= .
BENCH_PEER ?=
FUZZTIME ?= 60s
KIND ?= cuda

.PHONY: help page test vet test-go test-xla race fuzz bench bench-peer readers plugin plugin-cuda plugin-rocm gpu-check fmt tidy

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

test: plugin vet test-go test-xla ## vet, all tests on the pure Go backend, some again on xla:cpu

vet: ## formatting, go vet with and without XLA
	@test -z "$$(gofmt -s -l .)" || { gofmt -s -l .; echo "run make fmt"; exit 1; }
	go vet ./...
	CGO_ENABLED=0 go vet -tags noxla ./...

test-go: ## all tests on the pure Go backend
	GOMLX_BACKEND=go PJRT_PLUGIN_LIBRARY_PATH=$(PLUGINS) go test -timeout 30m ./...

test-xla: plugin ## the reference tests, and those of memory and faults of a device, on xla:cpu
	$(XLA) go test -timeout 30m ./... -run 'TestReference|TestMemoryIsFlat|TestBrokenDevice|TestDeviceFails|TestCancelAtEveryEvent'

race: ## tests under the race detector (pure Go backend)
	GOMLX_BACKEND=go go test -short -race -gcflags=all=-d=checkptr=0 -timeout 60m ./...

# What a target finds is kept, and fails the second run too; Go's "context deadline exceeded" at the end does not.
fuzz: ## every fuzz target for FUZZTIME (60s), one after the other
	@for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for target in $$(grep -hoE '^func Fuzz[A-Za-z]+' $$dir/*_test.go | cut -d' ' -f2); do \
			echo "$$dir $$target"; \
			fuzz="env GOMLX_BACKEND=go go test $$dir -run ^$$ -fuzz ^$$target\$$ -fuzztime $(FUZZTIME) -fuzzminimizetime 10x"; \
			$$fuzz || $$fuzz || exit 1; \
		done; \
	done

bench: plugin ## benchmarks on xla:cpu; BENCH selects them
	$(XLA) go test -timeout 30m ./... -run '^$$' -bench '$(BENCH)' -benchtime 3x

bench-peer: plugin ## PyTorch and our stages in turn on the same cores, tables in out; BENCH_PEER="--only NAME,... --quick"
	test -x .venv/bin/python || { python3 -m venv .venv && .venv/bin/pip install -q torch numpy; }
	mkdir -p out
	$(XLA) .venv/bin/python scripts/bench_peer.py --json out/bench.json --markdown out/bench.md --profile out/profile.md $(BENCH_PEER)

page: ## build the viewer of examples/service from the npm registry (needs Node.js)
	cd examples/service/web && npm ci && npm run build

plugin: ## install the CPU PJRT plugin into .plugins
	scripts/plugin.sh cpu $(PLUGINS)

plugin-cuda: ## install the CUDA 13 PJRT plugin into .plugins
	scripts/plugin.sh cuda $(PLUGINS)

plugin-rocm: ## install the ROCm 7 PJRT plugin into .plugins
	scripts/plugin.sh rocm $(PLUGINS)

gpu-check: ## build, reference cases and a full-size object on KIND (cuda, rocm, cpu); writes out/check-KIND/gpu_check.json
	PLUGINS=$(PLUGINS) scripts/gpu_check.sh $(KIND)

fmt: ## format the code
	gofmt -s -w .

tidy: ## tidy go.mod
	go mod tidy
