#!/bin/bash
# Follow the source. The data of this server are its own so far: its GTIDs start at nothing.
mysql -uroot -p"$MYSQL_ROOT_PASSWORD" <<SQL
RESET MASTER;
CHANGE REPLICATION SOURCE TO SOURCE_HOST='mysql-source', SOURCE_USER='repl', SOURCE_PASSWORD='$REPLICATION_PASSWORD',
  SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=2, GET_SOURCE_PUBLIC_KEY=1;
START REPLICA;
SQL
