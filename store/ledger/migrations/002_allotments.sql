-- The longest hold_duration_ms that the allotment has had: a hold never has more time left, and an adopt gives it no more.
-- What earlier rules were is not known of a row that is older than this.
ALTER TABLE allotments ADD COLUMN longest_hold_ms bigint NOT NULL DEFAULT 0;
UPDATE allotments SET longest_hold_ms = greatest(hold_duration_ms, max_hold_duration_ms);

-- Of a new row both are the same moment.
ALTER TABLE allotments
    ALTER COLUMN create_time SET DEFAULT statement_timestamp(),
    ALTER COLUMN update_time SET DEFAULT statement_timestamp();
