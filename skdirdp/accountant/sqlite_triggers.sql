-- Triggers of an SQLite ledger. Statements are separated by empty lines. A file stores their text, which
-- is compared when it is checked, so keep every space.

    CREATE TRIGGER charges_move_the_head AFTER INSERT ON charges BEGIN
        UPDATE heads SET entries = NEW.id, hash = NEW.hash WHERE ledger = NEW.ledger;
    END

    CREATE TRIGGER charges_follow_the_last BEFORE INSERT ON charges
    WHEN NEW.id IS NOT (SELECT entries + 1 FROM heads WHERE ledger = NEW.ledger) BEGIN
        SELECT RAISE(ABORT, 'a charge has to follow the last one');
    END

    CREATE TRIGGER charges_stay BEFORE DELETE ON charges BEGIN
        SELECT RAISE(ABORT, 'a charge cannot be taken back');
    END

    CREATE TRIGGER charges_do_not_change BEFORE UPDATE ON charges BEGIN
        SELECT RAISE(ABORT, 'a charge cannot be changed');
    END

    CREATE TRIGGER heads_stay BEFORE DELETE ON heads BEGIN
        SELECT RAISE(ABORT, 'the head of a ledger cannot be removed');
    END

    CREATE TRIGGER heads_follow_charges BEFORE UPDATE ON heads
    WHEN NEW.ledger IS NOT OLD.ledger OR NEW.entries IS NOT OLD.entries + 1 OR NEW.hash IS NOT
        (SELECT hash FROM charges WHERE ledger = NEW.ledger AND id = NEW.entries) BEGIN
        SELECT RAISE(ABORT, 'the head of a ledger follows its charges');
    END

    CREATE TRIGGER ledgers_stay BEFORE DELETE ON ledgers BEGIN
        SELECT RAISE(ABORT, 'limits cannot be removed');
    END

    CREATE TRIGGER ledgers_do_not_change BEFORE UPDATE ON ledgers BEGIN
        SELECT RAISE(ABORT, 'limits cannot be changed');
    END

    CREATE TRIGGER ledgers_are_alone BEFORE INSERT ON ledgers
    WHEN EXISTS (SELECT 1 FROM ledgers) BEGIN
        SELECT RAISE(ABORT, 'a file has one ledger');
    END
