package main

// guards are the protections of docs/design.md, in the order of the protocol.
var guards = []guard{
	{
		name: "need", why: "a request that finds too little releases what has lapsed", file: "lua/create.lua",
		with:    "return nil end\n  local tags = due(a)",
		without: "return nil end\n  local tags = nil",
	},
	{
		name: "stock", why: "a hold is granted only from what is available", file: "lua/create.lua",
		with: "  if a.available >= q then return nil end", without: "  if a.available >= q - 1 then return nil end",
	},
	{
		name: "identity", why: "a script works only on the server its allotment was adopted on", file: "lua/prelude.lua",
		with: " or string.sub(text, 1, 40) ~= identity then", without: " then",
	},
	{
		name: "adopting", why: "scripts refuse while an allotment is being adopted", file: "lua/prelude.lua",
		with: "format ~= FORMAT or v[2] or", without: "format ~= FORMAT or",
	},
	{
		name: "claim", why: "a step of an adopt checks its claim", file: "lua/parts/adopt.lua",
		with: "return master and not v.err and v[1] == claim and v[2] == identity", without: "return master",
	},
	{
		name: "renewal", why: "only a claim that is in force can be renewed", file: "lua/adopt_begin.lua",
		with: "if mode == '1' and not claimed(a, claim)", without: "if false",
	},
	{
		name: "feed", why: "Redis accepts exactly the next number of the feed", file: "lua/feed.lua",
		with: "  if number <= a.feed then return {S.OK} end\n  if number ~= a.feed + 1 then return {S.GAP} end\n", without: "",
	},
	{
		name: "token", why: "finish compares the outcome's token with the record's", file: "lua/finish.lua",
		with: "local same = r[EPOCH] == v.epoch and r[SEQ] == v.seq", without: "local same = true",
	},
	{
		name: "once", why: "a hold that has ended is not ended again", file: "lua/finish.lua",
		with: "if r[STATE] == HELD or r[STATE] == CONFIRMING then", without: "if true then",
	},
	{
		name: "pin", why: "a confirm that began cannot lapse", file: "lua/begin.lua",
		with: "    put('ZREM', a.deadlines, h.tag)\n", without: "    put('ZADD', a.deadlines, deadline(h), h.tag)\n    r[LEASE] = 0\n",
	},
	{
		name: "outcome", why: "the outcome row is looked up before epoch and capacity", file: "store/ledger/decide.go",
		with: "		outcome, exists := b.outcomes[line.ID]", without: "		outcome, exists := store.Outcome{}, false",
	},
	{
		name: "refused-row", why: "a refusal for good leaves a row", file: "store/ledger/decide.go",
		with: "	b.changed[line.ID] = true", without: "	if kind == store.VerdictSold {\n		b.changed[line.ID] = true\n	}",
	},
	{
		name: "epoch", why: "the ledger step compares the epoch", file: "store/ledger/decide.go",
		with: "return !exists || allotment.epoch != line.Epoch", without: "return !exists || allotment.epoch < 0",
	},
	{
		name: "assumed-epoch", why: "a sale that was written without reading is conditional on the epoch", file: "store/ledger/settlement.go",
		with: "where id = $1::text and epoch = $4::bigint", without: "where id = $1::text and $4::bigint > 0",
	},
	{
		name: "assumed-outcome", why: "a sale that was written without reading does not replace an outcome", file: "store/ledger/settlement.go",
		with: "where o.verdict = 'REFUSED' and $18::boolean", without: "where o.verdict = 'REFUSED' and ($18::boolean or true)",
	},
	{
		name: "row-lock", why: "the ledger step locks the allotment's row", file: "store/ledger/settlement.go",
		with: "where id = any($1::text[]) order by id for update)", without: "where id = any($1::text[]) order by id)",
	},
	{
		name: "stale", why: "STALE never ends a hold", file: "server/inventory/confirm.go",
		with: "		if verdict.Kind == store.VerdictStale {\n			return true", without: "		if verdict.Kind == store.VerdictStale {\n			verdicts[0].Kind = store.VerdictRefusedCart\n			for i := range verdicts {\n				verdicts[i].Kind = store.VerdictRefusedCart\n			}\n			return false",
	},
	{
		name: "retries", why: "go-redis never retries by itself", file: "store/holds/store.go",
		with: "options.MaxRetries = -1", without: "options.MaxRetries = 3",
	},
}
