-- Every change of every breach, each once. What holds now is the row with the greatest change of an id:
-- SELECT * FROM breaches ORDER BY change DESC LIMIT 1 BY id.
CREATE OR REPLACE VIEW breaches AS
SELECT * FROM breach_changes FINAL;
