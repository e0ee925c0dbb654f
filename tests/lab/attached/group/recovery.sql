-- Each member has this account of its own.
SET SESSION sql_log_bin = 0;
CREATE USER 'recovery'@'%' IDENTIFIED BY 'recovery-secret';
GRANT REPLICATION SLAVE, BACKUP_ADMIN, CONNECTION_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO 'recovery'@'%';
SET SESSION sql_log_bin = 1;
CHANGE REPLICATION SOURCE TO SOURCE_USER='recovery', SOURCE_PASSWORD='recovery-secret' FOR CHANNEL 'group_replication_recovery';
