package main

import "fmt"

// benchmarks are the Go benchmarks that are published, in the order of the document.
var benchmarks = []benchmark{
	{
		name: "script-cpu", title: "Redis CPU of a decision", pkg: "store/holds", match: "^BenchmarkScriptCPU$", time: "1x",
		asked: "holds, repeats and refusals in batches of several sizes, and a pipelined DECRBY in the same run.",
		shows: []string{"redis-us/decision", "x-DECRBY"},
		measures: []measure{
			{name: "ScriptCPU/hold/batch=128", unit: "x-DECRBY", target: atMost(11), readme: "Redis CPU of a hold, in batches of 128, to a pipelined DECRBY"},
			{name: "ScriptCPU/refusal/batch=128", unit: "x-DECRBY", target: atMost(2.5), readme: "the same of a refusal"},
		},
	},
	{
		name: "steps", title: "Redis CPU of the other steps", pkg: "store/holds", match: "^BenchmarkSteps$", time: "1x",
		asked: "what a hold takes after it was made: reading, extending, confirm-begin and -finish, cancelling, by 128 callers at once; releasing " +
			"what has lapsed, in batches of 128.",
	},
	{
		name: "script-instructions", title: "Instructions of Redis for a decision", pkg: "store/holds", match: "^BenchmarkScriptInstructions$",
		time: "1x", asked: "the same, counted by the processor, which neighbours do not change.",
	},
	{
		name: "decision-size", title: "Decisions among few and among many holds", pkg: "store/holds", match: "^BenchmarkDecisionBySize$", time: "1x",
		asked: "Redis CPU of a decision in batches of 128, in an allotment with 1,000 live holds and in one with 1,000,000.",
		measures: []measure{{
			name: "DecisionBySize", unit: "x-1e3", what: "with 1,000,000 live holds, to 1,000", target: atMost(1.2),
			readme: "Redis CPU of a decision among 1,000,000 live holds, to that among 1,000",
		}},
	},
	{
		name: "allotments", title: "Decisions over many allotments", pkg: "store/holds", match: "^BenchmarkAllotments$", time: "1x",
		asked: "holds of 256 callers who ask for several allotments in turn, each a group of its own; x-one is the rate to that with one allotment.",
	},
	{
		name: "hot-groups", title: "Several hot groups", pkg: "store/holds", match: "^BenchmarkHotGroups$",
		asked: "refusals of many callers whose allotments are all of one group or of many, without gRPC; x-one-group is the rate to that of one group.",
	},
	{
		name: "memory", title: "Redis memory of a live hold", pkg: "store/holds", match: "^BenchmarkMemoryPerHold$", time: "1x",
		asked: "with its marker, indexes and buyer's entry; UUIDs, or other ids of 36 characters, which cannot be packed.",
		shows: []string{"bytes/hold"},
		measures: []measure{{
			name: "MemoryPerHold/holds=1000000", unit: "bytes/hold", target: atMost(450), readme: "Redis memory of a live hold, 1,000,000 of them",
		}},
	},
	{
		name: "create", title: "The queue of holds", pkg: "store/holds", match: "^BenchmarkCreate$",
		asked: "many callers that hold through the queue of one server.",
	},
	{
		name: "codec", title: "Encoding for the scripts", pkg: "store/holds", match: "^Benchmark(EncodeCreate|DecodeReply)$",
		asked: "the keys and arguments of a call for 128 holds, and its reply.",
	},
	{
		name: "sweep", title: "Sweeping lapsed holds", pkg: "store/holds", match: "^BenchmarkSweep$", time: "1x",
		asked: "finding and releasing 10,000 lapsed holds among 1,000,000.",
	},
	{
		name: "sweep-lag", title: "Lag of the sweeper", pkg: "server/inventory", match: "^BenchmarkSweepLag$", time: "1x",
		asked: "100,000 live holds, of which 4,000 lapse in two seconds: how long after their deadline they are released.",
		shows: []string{"%<=50ms", "%<=250ms", "mean-lag-ms"},
		measures: []measure{{
			name: "SweepLag", unit: "mean-lag-ms", readme: "mean lag of what frees lapsed holds, 4,000 of 100,000 lapsing in 2 s",
		}},
	},
	{
		name: "lapse-storm", title: "Many holds that lapse at once", pkg: "server/inventory", match: "^BenchmarkLapseStorm$", time: "1x",
		asked: "20,000 holds whose deadlines fall within a second, while 500 new ones a second are asked for: when all units are back, and what " +
			"decisions take meanwhile.",
		measures: []measure{
			{name: "LapseStorm", unit: "back-s", target: atMost(5), readme: "20,000 holds that lapse within a second: all units are back after"},
			{name: "LapseStorm", unit: "wrongly-refused", target: atMost(0)},
			{name: "LapseStorm", unit: "p99-ms", target: atMost(100)},
		},
	},
	{
		name: "adopt", title: "Redis lost and back", pkg: "server/inventory", match: "^BenchmarkAdopt$", time: "1x",
		asked: "1,000 allotments with 100,000 live holds and 100,000 sales, ten of them asked for units all the while; Redis is emptied, or restarted " +
			"with its append-only file. From the moment at which it is reachable: when the last of the ten has its first decision, and when all are in force.",
		shows: []string{"first-ms", "all-ms", "p99-ms"}, measures: adopts(),
	},
	{
		name: "batch", title: "Gathering a batch", pkg: "store/batch", match: "^BenchmarkAdd$", asked: "what it costs to be added to one.",
	},
	{
		name: "step", title: "Sales in Postgres", pkg: "store/ledger", match: "^BenchmarkStep$", time: "1x",
		asked: "the ledger step alone, by writers with groups of confirms of one allotment; x-baseline is the sales a second to those of one " +
			"UPDATE and INSERT a transaction on 16 connections. Postgres waits for the disk.",
		measures: []measure{{
			name: "Step/writers=4/group=16", unit: "x-baseline", target: atLeast(8),
			readme: "sales a second in Postgres; the baseline is one UPDATE and INSERT a transaction",
		}},
	},
	{
		name: "confirm", title: "Confirming", pkg: "cmd/holdfast", match: "^BenchmarkConfirm$", time: "1x",
		asked: "ConfirmHold through gRPC, on stores that keep what they are told; x-baseline is the confirms a second to the sales of one UPDATE " +
			"and INSERT a transaction on 16 connections.",
		measures: []measure{
			{name: "Confirm/callers=64", unit: "x-baseline", target: atLeast(4), readme: "confirms a second through gRPC; the same baseline"},
			{name: "Confirm/callers=64", unit: "p99-ms", target: atMost(100)},
			{name: "Confirm/alone", unit: "redis-round-trips/confirm", target: atMost(2)},
			{
				name: "Confirm/alone", unit: "transactions/confirm", target: atMost(1),
				what: "Confirm/alone (the difference of two readings: less those that the service makes in as long by itself, a few a second)",
			},
		},
	},
	{
		name: "grpc", title: "A call through gRPC", pkg: "server", match: "^Benchmark(Hold|SoldOut)$",
		asked: "the whole of it, client included, the decision taking no time.",
	},
	{
		name: "status", title: "Making a refusal's status, and validating a request", pkg: "server", match: "^Benchmark(Refusal|Validate)$",
		asked: "parts of a call through gRPC.",
	},
	{
		name: "open-loop", title: "The load generator at 20,000 requests a second", pkg: "cmd/launch", match: "^BenchmarkOpenLoop$", time: "200000x",
		asked: "the launch's requests, to a server that decides nothing: what the generator alone uses.",
		measures: []measure{
			{name: "OpenLoop", unit: "cores", target: atMost(1), readme: "what the load generator uses for 20,000 requests a second"},
		},
	},
	{
		name: "wire", title: "The load generator, call by call", pkg: "cmd/launch/wire", match: "^BenchmarkWire$", asked: "what a call costs who generates the load.",
	},
}

// adopts are what a loss of Redis takes, by how many replicas see to it, where the holds and sales are, and how Redis came back.
func adopts() []measure {
	var all []measure
	for _, replicas := range []int{1, 3} {
		for _, share := range [][2]string{{"spread", ""}, {"hot", ", a tenth of all in the first of the ten"}} {
			for _, back := range [][2]string{{"empty", "emptied"}, {"restart", "restarted"}} {
				name, what := fmt.Sprintf("Adopt/replicas=%d/%s/%s", replicas, share[0], back[0]), fmt.Sprintf("%s, replicas of ours %d%s: ", back[1], replicas, share[1])
				all = append(all,
					measure{name: name, unit: "first-ms", what: what + "the last of the ten has its first decision after", target: atMost(1000)},
					measure{name: name, unit: "all-ms", what: what + "all are in force after", target: atMost(10_000)},
					measure{name: name, unit: "p99-ms", what: what + "decisions of the ten from their first on, p99", target: atMost(100)},
				)
			}
		}
	}
	return all
}
