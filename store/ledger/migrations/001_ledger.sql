-- The ledger. It alone decides what is sold: each rule that must hold whatever Redis, a replica, a
-- clock or a client does is a named constraint here. Ids sort by their bytes (COLLATE "C"), so that
-- pages and lock order are the same in Go and in SQL.

CREATE TABLE allotments (
    id                   text COLLATE "C" NOT NULL,
    group_id             text COLLATE "C" NOT NULL,
    buckets              integer     NOT NULL,
    capacity             bigint      NOT NULL,
    sold                 bigint      NOT NULL DEFAULT 0,
    epoch                bigint      NOT NULL DEFAULT 0, -- 0: never in Redis yet
    epoch_time           timestamptz,                    -- when it was raised last
    feed                 bigint      NOT NULL DEFAULT 0, -- number of the last change that goes to Redis
    version              bigint      NOT NULL DEFAULT 1, -- rises with each change but a sale's; once retired, also with a cancelled sale
    state                smallint    NOT NULL,           -- 1 open, 2 paused, 3 closed
    late_confirm         smallint    NOT NULL,           -- 1 accept if available, 2 reject
    hold_duration_ms     bigint      NOT NULL,
    max_hold_duration_ms bigint      NOT NULL,
    max_per_hold         bigint      NOT NULL,
    max_per_buyer        bigint      NOT NULL DEFAULT 0, -- 0: no limit
    opens_at             timestamptz,
    closes_at            timestamptz,
    retired_at           timestamptz,                    -- left Redis; answered from here
    created              jsonb       NOT NULL,           -- as first asked for: what a repeat is compared with
    create_time          timestamptz NOT NULL DEFAULT clock_timestamp(),
    update_time          timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT allotments_pkey               PRIMARY KEY (id),
    CONSTRAINT allotments_never_oversold     CHECK (0 <= sold AND sold <= capacity),
    CONSTRAINT allotments_capacity_limit     CHECK (capacity <= 1000000000),
    CONSTRAINT allotments_numbers_valid      CHECK (buckets >= 1 AND epoch >= 0 AND feed >= 0 AND version >= 1),
    CONSTRAINT allotments_state_known        CHECK (state IN (1, 2, 3)),
    CONSTRAINT allotments_late_confirm_known CHECK (late_confirm IN (1, 2)),
    CONSTRAINT allotments_durations_valid    CHECK (hold_duration_ms > 0 AND max_hold_duration_ms > 0),
    CONSTRAINT allotments_limits_valid       CHECK (max_per_hold >= 1 AND max_per_buyer >= 0),
    CONSTRAINT allotments_retired_closed     CHECK (retired_at IS NULL OR state = 3)
) WITH (fillfactor = 50); -- the hot row changes in place: no index holds a column that a sale changes

-- How each hold that reached the ledger ended. The primary key is what makes a hold's end happen once.
CREATE TABLE outcomes (
    hold_id            text COLLATE "C" NOT NULL,
    allotment_id       text COLLATE "C" NOT NULL,
    verdict            text        NOT NULL, -- SOLD is for ever; REFUSED may be replaced for a newer token
    kind               text        NOT NULL, -- SALE, or SHRINK: units taken off the capacity
    buyer_id           text COLLATE "C" NOT NULL, -- empty: a shrink; erased-...: erased on request
    request_id         text COLLATE "C" NOT NULL,
    order_id           text COLLATE "C" NOT NULL, -- empty: a shrink
    quantity           bigint      NOT NULL, -- units sold, taken off or refused
    cancelled_quantity bigint      NOT NULL DEFAULT 0,
    token_epoch        bigint      NOT NULL,
    token_sequence     bigint      NOT NULL,
    held               bigint      NOT NULL, -- of the hold, like cart and hold_create_time: kept for repeats
    cart               text        NOT NULL, -- fingerprint of the cart it was created in; empty: it was alone
    hold_create_time   timestamptz,
    refused_reason     text,                 -- ORDER, ROOM or CART
    other_hold         text COLLATE "C",     -- with ORDER: the hold under which the order bought before
    decided_at         timestamptz NOT NULL,
    cancel_time        timestamptz,          -- of the last cancellation

    CONSTRAINT outcomes_pkey             PRIMARY KEY (hold_id),
    CONSTRAINT outcomes_allotment_exists FOREIGN KEY (allotment_id) REFERENCES allotments (id),
    CONSTRAINT outcomes_hold_of_allotment CHECK (starts_with(hold_id, allotment_id || '.')),
    CONSTRAINT outcomes_verdict_known    CHECK (verdict IN ('SOLD', 'REFUSED')),
    CONSTRAINT outcomes_kind_known       CHECK (kind IN ('SALE', 'SHRINK')),
    CONSTRAINT outcomes_reason_known     CHECK (CASE verdict WHEN 'SOLD' THEN refused_reason IS NULL
                                                ELSE refused_reason IS NOT NULL AND refused_reason IN ('ORDER', 'ROOM', 'CART') END),
    CONSTRAINT outcomes_quantity_valid   CHECK (quantity >= CASE verdict WHEN 'SOLD' THEN 1 ELSE 0 END AND held >= 0),
    CONSTRAINT outcomes_cancelled_valid  CHECK (cancelled_quantity = 0 OR (verdict = 'SOLD' AND kind = 'SALE'
                                                AND 0 < cancelled_quantity AND cancelled_quantity <= quantity)),
    CONSTRAINT outcomes_sale_complete    CHECK (verdict <> 'SOLD' OR kind <> 'SALE' OR (buyer_id <> '' AND order_id <> ''))
);

-- An order buys from an allotment once. The order comes first, so that listing by order uses it too.
CREATE UNIQUE INDEX outcomes_order_once ON outcomes (order_id, allotment_id) WHERE verdict = 'SOLD' AND kind = 'SALE';
CREATE INDEX outcomes_by_buyer ON outcomes (buyer_id, hold_id);
CREATE INDEX outcomes_by_time  ON outcomes (allotment_id, decided_at);

CREATE TABLE cancellations (
    hold_id     text COLLATE "C" NOT NULL,
    request_id  text COLLATE "C" NOT NULL,
    asked       bigint      NOT NULL, -- 0: the rest. A repeat must ask the same
    quantity    bigint      NOT NULL,
    feed        bigint      NOT NULL, -- 0: the allotment was retired, nothing went to Redis
    cancel_time timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT cancellations_request_once   PRIMARY KEY (hold_id, request_id),
    CONSTRAINT cancellations_hold_exists    FOREIGN KEY (hold_id) REFERENCES outcomes (hold_id),
    CONSTRAINT cancellations_quantity_valid CHECK (quantity >= 1 AND (asked = 0 OR asked = quantity)),
    CONSTRAINT cancellations_feed_valid     CHECK (feed >= 0)
);

CREATE TABLE adjustments (
    allotment_id text COLLATE "C" NOT NULL,
    request_id   text COLLATE "C" NOT NULL,
    delta        bigint      NOT NULL,
    feed         bigint      NOT NULL, -- 0: a shrink, or the allotment was retired
    create_time  timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT adjustments_request_once     PRIMARY KEY (allotment_id, request_id),
    CONSTRAINT adjustments_allotment_exists FOREIGN KEY (allotment_id) REFERENCES allotments (id),
    CONSTRAINT adjustments_delta_valid      CHECK (delta <> 0),
    CONSTRAINT adjustments_feed_valid       CHECK (feed >= 0 AND (delta > 0 OR feed = 0))
);

-- The changes that go from the ledger to Redis, until they are applied or counted by an adopt.
CREATE TABLE feed (
    allotment_id text COLLATE "C" NOT NULL,
    number       bigint      NOT NULL,
    kind         smallint    NOT NULL, -- 1 growth, 2 cancelled sale, 3 rules
    quantity     bigint      NOT NULL DEFAULT 0,
    buyer_id     text        NOT NULL DEFAULT '',
    rules        jsonb,
    create_time  timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT feed_number_once      PRIMARY KEY (allotment_id, number),
    CONSTRAINT feed_allotment_exists FOREIGN KEY (allotment_id) REFERENCES allotments (id),
    CONSTRAINT feed_number_valid     CHECK (number >= 1),
    CONSTRAINT feed_kind_known       CHECK (kind IN (1, 2, 3)),
    CONSTRAINT feed_content_valid    CHECK (CASE kind WHEN 3 THEN rules IS NOT NULL AND quantity = 0
                                            ELSE rules IS NULL AND quantity >= 1 END)
);

-- Erasures under way: what stands for the buyer, so that an interrupted one goes on with the same
-- marker. The row goes when the erasure is complete.
CREATE TABLE erasures (
    buyer_id   text COLLATE "C" NOT NULL,
    marker     text        NOT NULL,
    start_time timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT erasures_pkey        PRIMARY KEY (buyer_id),
    CONSTRAINT erasures_marker_once UNIQUE (marker)
);

-- ledger_must fails the transaction when a write did not do exactly what was decided under the row
-- lock. The writes and the COMMIT travel together, so only the server can still stop it then.
CREATE FUNCTION ledger_must(got bigint, want bigint, rule text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF got IS DISTINCT FROM want THEN
        RAISE EXCEPTION 'ledger: % of % rows allowed by %', got, want, rule
            USING ERRCODE = 'check_violation', CONSTRAINT = rule;
    END IF;
END $$;
