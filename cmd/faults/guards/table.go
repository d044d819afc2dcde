package guards

// All are the protections of docs/design.md, in the order of the protocol.
var All = []Guard{
	{
		Name: "need", Why: "a request that finds too little releases what has lapsed", File: "lua/create.lua",
		With:    "return nil end\n  local tags = due(a)",
		Without: "return nil end\n  local tags = nil",
	},
	{
		Name: "stock", Why: "a hold is granted only from what is available", File: "lua/create.lua",
		With: "  if a.available >= q then return nil end", Without: "  if a.available >= q - 1 then return nil end",
	},
	{
		Name: "identity", Why: "a script works only on the server its allotment was adopted on", File: "lua/prelude.lua",
		With: " or string.sub(text, 1, 40) ~= identity then", Without: " then",
	},
	{
		Name: "adopting", Why: "scripts refuse while an allotment is being adopted", File: "lua/prelude.lua",
		With: "format ~= FORMAT or v[2] or", Without: "format ~= FORMAT or",
	},
	{
		Name: "claim", Why: "a step of an adopt checks its claim", File: "lua/parts/adopt.lua",
		With: "return master and not v.err and v[1] == claim and v[2] == identity", Without: "return master",
	},
	{
		Name: "renewal", Why: "only a claim that is in force can be renewed", File: "lua/adopt_begin.lua",
		With: "if mode == '1' and not claimed(a, claim)", Without: "if false",
	},
	{
		Name: "feed", Why: "Redis accepts exactly the next number of the feed", File: "lua/feed.lua",
		With: "  if number <= a.feed then return {S.OK} end\n  if number ~= a.feed + 1 then return {S.GAP} end\n", Without: "",
	},
	{
		Name: "token", Why: "finish compares the outcome's token with the record's", File: "lua/finish.lua",
		With: "local same = r[EPOCH] == v.epoch and r[SEQ] == v.seq", Without: "local same = true",
	},
	{
		Name: "once", Why: "a hold that has ended is not ended again", File: "lua/finish.lua",
		With: "if r[STATE] == HELD or r[STATE] == CONFIRMING then", Without: "if true then",
	},
	{
		Name: "pin", Why: "a confirm that began cannot lapse", File: "lua/begin.lua",
		With: "    put('ZREM', a.deadlines, h.tag)\n", Without: "    put('ZADD', a.deadlines, deadline(h), h.tag)\n    r[LEASE] = 0\n",
	},
	{
		Name: "outcome", Why: "the outcome row is looked up before epoch and capacity", File: "store/ledger/decide.go",
		With: "		outcome, exists := b.outcomes[line.ID]", Without: "		outcome, exists := store.Outcome{}, false",
	},
	{
		Name: "refused-row", Why: "a refusal for good leaves a row", File: "store/ledger/decide.go",
		With: "	b.changed[line.ID] = true", Without: "	if kind == store.VerdictSold {\n		b.changed[line.ID] = true\n	}",
	},
	{
		Name: "epoch", Why: "the ledger step compares the epoch", File: "store/ledger/decide.go",
		With: "return !exists || allotment.epoch != line.Epoch", Without: "return !exists || allotment.epoch < 0",
	},
	{
		Name: "assumed-epoch", Why: "a sale that was written without reading is conditional on the epoch", File: "store/ledger/settlement.go",
		With: "where id = $1::text and epoch = $4::bigint", Without: "where id = $1::text and $4::bigint > 0",
	},
	{
		Name: "assumed-outcome", Why: "a sale that was written without reading does not replace an outcome", File: "store/ledger/settlement.go",
		With: "where o.verdict = 'REFUSED' and $18::boolean", Without: "where o.verdict = 'REFUSED' and ($18::boolean or true)",
	},
	{
		Name: "row-lock", Why: "the ledger step locks the allotment's row", File: "store/ledger/settlement.go",
		With: "where id = any($1::text[]) order by id for update)", Without: "where id = any($1::text[]) order by id)",
	},
	{
		Name: "stale", Why: "STALE never ends a hold", File: "server/inventory/confirm.go",
		With: "		if verdict.Kind == store.VerdictStale {\n			return true", Without: "		if verdict.Kind == store.VerdictStale {\n			verdicts[0].Kind = store.VerdictRefusedCart\n			for i := range verdicts {\n				verdicts[i].Kind = store.VerdictRefusedCart\n			}\n			return false",
	},
	{
		Name: "retries", Why: "go-redis never retries by itself", File: "store/holds/store.go",
		With: "options.MaxRetries = -1", Without: "options.MaxRetries = 3",
	},
	{
		Name: "repeat", Why: "a request that was answered gets the same answer again", File: "lua/create.lua",
		With: "    if #result == 1 then return nil end\n", Without: "    if true then return nil end\n",
	},
	{
		Name: "release", Why: "only what is held lapses", File: "lua/release.lua",
		With: "if h.r[STATE] ~= HELD or isLive(h) then", Without: "if isLive(h) then",
	},
	{
		Name: "claimed", Why: "a supervisor claims confirms whose lease ran out", File: "lua/claim.lua",
		With: "  if r[LEASE] > now then", Without: "  if true then",
	},
	{
		Name: "pass", Why: "what ends something passes when Redis is out of memory", File: "lua/prelude.lua",
		With: "  put('HDEL', key, '')\n", Without: "",
	},
	{
		Name: "eviction", Why: "a server is not ready under a policy that drops counters or holds", File: "store/holds/settings.go",
		With: `policy != "" && policy != "noeviction"`, Without: `policy == "unknown"`,
	},
	{
		Name: "noscript", Why: "a script that Redis does not know is loaded again", File: "store/holds/queue.go",
		With: `case refused(err, "NOSCRIPT"):`, Without: `case refused(err, "NOSCRIPTS"):`,
	},
	{
		Name: "deadline", Why: "a decision that does not come in time is UNAVAILABLE", File: "server/inventory/inventory.go",
		With: "timed := v.decisions.Context(ctx, time.Now())", Without: "timed := ctx",
	},
	{
		Name: "budget", Why: "a call has its time from when it was read", File: "server/interceptors.go",
		With: "limited = m.budget.Context(ctx, arrived)", Without: "limited = ctx",
	},
	{
		Name: "patience", Why: "a batch that Redis does not answer is given up before its callers' time is over", File: "store/holds/queue.go",
		With: "context.WithTimeout(context.Background(), s.timeoutOf(l, n, calls))", Without: "context.WithTimeout(context.Background(), time.Minute)",
	},
	{
		Name: "trouble", Why: "trouble is never reported as a refusal", File: "server/inventory/create.go",
		With:    "	err = closedIfRetired(err)\n",
		Without: "	err = closedIfRetired(err)\n	if _, no := err.(*store.Refusal); err != nil && !no {\n		err = &store.Refusal{Reason: store.SoldOut, Allotment: lines[0].Allotment}\n	}\n",
	},
	{
		Name: "replicas", Why: "a decision waits for the replicas that the durability asks for", File: "store/holds/durability.go",
		With: "	if d.Replicas == 0 {", Without: "	if d.Replicas >= 0 {",
	},
	{
		Name: "sold", Why: "an adopt takes off what the ledger has sold", File: "server/inventory/plan.go",
		With: "max(0, row.Capacity-row.Sold-p.held", Without: "max(0, row.Capacity-p.held",
	},
	{
		Name: "survivors", Why: "an adopt keeps the holds that survive", File: "server/inventory/rebuild.go",
		With: "	if err := r.survivors(ctx); err != nil {", Without: "	if err != nil {",
	},
	{
		Name: "lost-sales", Why: "an allotment whose ledger went back is paused", File: "server/inventory/rebuild.go",
		With: "	if len(r.plan.lostSales) > 0 {", Without: "	if len(r.plan.lostSales) < 0 {",
	},
	{
		Name: "sweep", Why: "a sweeper releases what has lapsed on time", File: "server/inventory/lapse.go",
		With: "		_, err = s.v.redis.Release(ctx, p, work[0].Lapsed, store.LapseBySweep)", Without: "		return",
	},
	{
		Name: "reads", Why: "availability releases what has lapsed before it is told", File: "lua/availability.lua",
		With: "local tags = a.gate == S.OK and due(a)", Without: "local tags = nil",
	},
	{
		Name: "followed", Why: "subscriptions follow the master", File: "store/holds/events.go",
		With: "		case <-changed:\n", Without: "		case <-ctx.Done():\n			_ = changed\n			return\n",
	},
	{
		Name: "subscription", Why: "a subscription that is lost is made anew", File: "store/holds/events.go",
		With: "	for ctx.Err() == nil {\n		// Each time", Without: "	for once := true; once; once = false {\n		// Each time",
	},
	{
		Name: "clock", Why: "a clock that jumps raises the alarm", File: "server/inventory/clock.go",
		With: "const clockJump = time.Second", Without: "const clockJump = time.Hour",
	},
	{
		Name: "streams", Why: "a server that stops ends what would never end by itself", File: "server/stop.go",
		With: "	s.end()\n", Without: "",
	},
	{
		Name: "stop-timeout", Why: "a server that stops cuts off what does not end", File: "server/stop.go",
		With: "	if why := s.stuck(ctx, graceful); why != \"\" {", Without: "	<-graceful\n	if why := \"\"; why != \"\" {",
	},
	{
		Name: "flush", Why: "a server that stops does not wait for a collector that is away", File: "server/telemetry.go",
		With: "context.WithTimeout(ctx, flushPatience)", Without: "context.WithTimeout(ctx, time.Minute)",
	},
}
