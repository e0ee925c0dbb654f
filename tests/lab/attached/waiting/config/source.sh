#!/bin/bash
# Create the account of the replica, and the table of the shop.
mysql -uroot -p"$MYSQL_ROOT_PASSWORD" <<SQL
CREATE USER 'repl'@'%' IDENTIFIED BY '$REPLICATION_PASSWORD';
GRANT REPLICATION SLAVE ON *.* TO 'repl'@'%';
CREATE TABLE shop.orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, item VARCHAR(40) NOT NULL, done BOOL NOT NULL DEFAULT 0);
SQL
