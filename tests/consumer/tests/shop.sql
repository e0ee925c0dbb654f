CREATE TABLE items (name VARCHAR(40) PRIMARY KEY);
INSERT INTO items VALUES ('tea'), ('coffee');
