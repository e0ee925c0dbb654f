-- The entrypoint creates root; whatever else has an account would shadow '%' or let somebody in without a password.
DELETE FROM mysql.global_priv WHERE User <> 'mariadb.sys';
DELETE FROM mysql.proxies_priv;
