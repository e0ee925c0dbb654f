-- The entrypoint creates root; an account without a password must not be left in the meantime.
DROP USER 'root'@'localhost';
