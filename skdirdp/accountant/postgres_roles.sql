-- Who may do what with the ledgers of this database.
--
-- Whoever owns the schema skdirdp (the steward: the role that made the first ledger) runs
-- this once; it can be run again. It needs the right to create roles. Then give people their
-- role:
--
--     GRANT skdirdp_analyst TO alice;
--     GRANT skdirdp_auditor TO bob;
--
-- An analyst reads all budgets and adds charges, under the name of his own login. He cannot
-- change or remove a charge, make a budget, or change a limit. He can waste a budget, with
-- charges for what he never released. An auditor only reads.

DO $$ BEGIN
    CREATE ROLE skdirdp_analyst NOLOGIN;
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;

DO $$ BEGIN
    CREATE ROLE skdirdp_auditor NOLOGIN;
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;

REVOKE ALL ON SCHEMA skdirdp FROM PUBLIC, skdirdp_analyst, skdirdp_auditor;
REVOKE ALL ON ALL TABLES IN SCHEMA skdirdp FROM PUBLIC, skdirdp_analyst, skdirdp_auditor;

GRANT USAGE ON SCHEMA skdirdp TO skdirdp_analyst, skdirdp_auditor;
GRANT SELECT ON ALL TABLES IN SCHEMA skdirdp TO skdirdp_analyst, skdirdp_auditor;
GRANT INSERT ON skdirdp.charges TO skdirdp_analyst;
-- The right to lock the row of a budget while a charge is made. A trigger refuses every update.
GRANT UPDATE (ledger) ON skdirdp.heads TO skdirdp_analyst;
