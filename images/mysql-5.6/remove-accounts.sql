-- The entrypoint creates root; the anonymous accounts would shadow '%', the others let somebody in without a password.
DELETE FROM mysql.user;
DELETE FROM mysql.db;
DELETE FROM mysql.proxies_priv;
DROP DATABASE IF EXISTS test;
