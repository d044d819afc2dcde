-- Supervisors look for the allotments that Redis may have again and again, among all that there ever were. Neither index holds a
-- column that a sale changes.
CREATE INDEX allotments_live ON allotments (id) WHERE retired_at IS NULL;
CREATE INDEX allotments_retired ON allotments (retired_at) WHERE retired_at IS NOT NULL;
