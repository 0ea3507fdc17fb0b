-- Functions and triggers of the ledgers in a PostgreSQL database. Statements are separated by empty
-- lines. `follow` runs with the permissions of the owner, because nobody else may update the head.

    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION USING MESSAGE =
            TG_OP || ' on ' || TG_TABLE_NAME || ' is not allowed: a ledger only grows';
    END $$

    CREATE FUNCTION follow() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = skdirdp, pg_temp AS $$
    BEGIN
        IF NEW.username IS DISTINCT FROM session_user AND NOT pg_has_role(session_user,
            (SELECT nspowner FROM pg_namespace WHERE nspname = 'skdirdp'), 'MEMBER')
        THEN
            RAISE EXCEPTION 'a charge must be recorded under the name of the user who makes it';
        END IF;
        UPDATE heads SET entries = NEW.id, hash = NEW.hash
        WHERE ledger = NEW.ledger AND entries = NEW.id - 1;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a charge has to follow the last one';
        END IF;
        RETURN NULL;
    END $$

    CREATE FUNCTION follow_charges() RETURNS trigger LANGUAGE plpgsql
    SET search_path = skdirdp, pg_temp AS $$
    BEGIN
        IF NEW.ledger <> OLD.ledger OR NEW.entries <> OLD.entries + 1 OR NOT EXISTS (
            SELECT FROM charges
            WHERE ledger = NEW.ledger AND id = NEW.entries AND hash = NEW.hash)
        THEN
            RAISE EXCEPTION 'the head of a ledger follows its charges';
        END IF;
        RETURN NEW;
    END $$

    CREATE TRIGGER charges_follow AFTER INSERT ON charges FOR EACH ROW EXECUTE FUNCTION follow()

    CREATE TRIGGER charges_stay BEFORE UPDATE OR DELETE ON charges FOR EACH ROW EXECUTE FUNCTION refuse()

    CREATE TRIGGER charges_are_kept BEFORE TRUNCATE ON charges EXECUTE FUNCTION refuse()

    CREATE TRIGGER heads_follow BEFORE UPDATE ON heads FOR EACH ROW EXECUTE FUNCTION follow_charges()

    CREATE TRIGGER heads_stay BEFORE DELETE ON heads FOR EACH ROW EXECUTE FUNCTION refuse()

    CREATE TRIGGER heads_are_kept BEFORE TRUNCATE ON heads EXECUTE FUNCTION refuse()

    CREATE TRIGGER ledgers_stay BEFORE UPDATE OR DELETE ON ledgers FOR EACH ROW EXECUTE FUNCTION refuse()

    CREATE TRIGGER ledgers_are_kept BEFORE TRUNCATE ON ledgers EXECUTE FUNCTION refuse()
