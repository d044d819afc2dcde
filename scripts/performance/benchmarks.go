package main

// benchmarks are the Go benchmarks that are published, in the order of the document.
var benchmarks = []benchmark{
	{
		name: "script-cpu", title: "Redis CPU of a decision", pkg: "store/holds", match: "^BenchmarkScriptCPU$", time: "1x",
		asked: "holds, repeats and refusals in batches of several sizes, and a pipelined DECRBY in the same run.",
		shows: []string{"redis-us/decision", "x-DECRBY"},
	},
	{
		name: "script-instructions", title: "Instructions of Redis for a decision", pkg: "store/holds", match: "^BenchmarkScriptInstructions$",
		time: "1x", asked: "the same, counted by the processor, which neighbours do not change.",
	},
	{
		name: "decision-size", title: "Decisions by the size of the allotment", pkg: "store/holds", match: "^BenchmarkDecisionBySize$",
		asked: "what a decision costs with few and with many live holds.",
	},
	{
		name: "allotments", title: "Decisions over many allotments", pkg: "store/holds", match: "^BenchmarkAllotments$",
		asked: "what a decision costs when requests are spread over many allotments.",
	},
	{
		name: "hot-groups", title: "Several hot groups", pkg: "store/holds", match: "^BenchmarkHotGroups$",
		asked: "the rate of requests that are spread over several groups, each with a call of its own.",
	},
	{
		name: "memory", title: "Redis memory of a live hold", pkg: "store/holds", match: "^BenchmarkMemoryPerHold$", time: "1x",
		asked: "with its marker, indexes and buyer's entry; UUIDs, or other ids of 36 characters, which cannot be packed.",
		shows: []string{"redis-bytes/hold"},
		measures: []measure{{
			name: "MemoryPerHold/ids=uuid/holds=100000", unit: "redis-bytes/hold", target: atMost(450),
			readme: "Redis memory of a live hold, 100,000 of them",
		}},
	},
	{
		name: "create", title: "The queue of holds", pkg: "store/holds", match: "^BenchmarkCreate$",
		asked: "many callers that hold through the queue of one server.",
	},
	{
		name: "codec", title: "Encoding for the scripts", pkg: "store/holds", match: "^Benchmark(EncodeCreate|DecodeReply)$",
		asked: "what a request and its reply cost to write and to read.",
	},
	{
		name: "sweep", title: "Sweeping lapsed holds", pkg: "store/holds", match: "^BenchmarkSweep$",
		asked: "how fast what has lapsed is released.",
	},
	{
		name: "sweep-lag", title: "Lag of the sweeper", pkg: "server/inventory", match: "^BenchmarkSweepLag$", time: "1x",
		asked: "100,000 live holds, of which 4,000 lapse in two seconds: how long after their deadline they are released.",
		shows: []string{"%<=50ms", "%<=250ms", "ms-mean-lag"},
		measures: []measure{{
			name: "SweepLag", unit: "ms-mean-lag", readme: "mean lag of what frees lapsed holds, 4,000 of 100,000 lapsing in 2 s",
		}},
	},
	{
		name: "lapse-storm", title: "Many holds that lapse at once", pkg: "server/inventory", match: "^BenchmarkLapseStorm$", time: "1x",
		asked: "what decisions take meanwhile.",
	},
	{
		name: "batch", title: "Gathering a batch", pkg: "store/batch", match: "^BenchmarkAdd$", asked: "what it costs to be added to one.",
	},
	{
		name: "settle", title: "Sales in Postgres", pkg: "store/ledger", match: "^BenchmarkSettle$",
		asked: "confirms of one allotment by many callers, through the ledger and by an UPDATE and an INSERT for each.",
		shows: []string{"sales/s", "p50-ms", "p99-ms"},
	},
	{
		name: "step", title: "The ledger step", pkg: "store/ledger", match: "^BenchmarkStep$",
		asked: "one transaction after the other, with groups of several sizes.",
	},
	{
		name: "confirm", title: "Confirming", pkg: "cmd/holdfast", match: "^BenchmarkConfirm$", asked: "confirms through gRPC, Redis and Postgres.",
	},
	{
		name: "grpc", title: "A call through gRPC", pkg: "server", match: "^Benchmark(Hold|SoldOut)$",
		asked: "the whole of it, client included, the decision taking no time.",
	},
	{
		name: "refusal", title: "Making a refusal's status, and validating a request", pkg: "server", match: "^Benchmark(Refusal|Validate)$",
		asked: "parts of a call through gRPC.",
	},
	{
		name: "wire", title: "The load generator", pkg: "cmd/launch/wire", match: "^BenchmarkWire$", asked: "what a call costs who generates the load.",
	},
}
