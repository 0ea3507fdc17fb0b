-- Permissions for the ledgers of this database.
--
-- The owner of the schema skdirdp (the role that created the first ledger) runs this once; it can
-- be repeated. It needs the permission to create roles. Then grant the roles:
--
--     GRANT skdirdp_analyst TO alice;
--     GRANT skdirdp_auditor TO bob;
--
-- An analyst reads all budgets and adds charges under the name of their own login. An analyst
-- cannot change or remove a charge, create a budget or change a limit, but can waste a budget with
-- charges for releases that were never made. An auditor only reads.

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
-- Needed to lock the row of a budget during a charge. A trigger refuses every update.
GRANT UPDATE (ledger) ON skdirdp.heads TO skdirdp_analyst;
