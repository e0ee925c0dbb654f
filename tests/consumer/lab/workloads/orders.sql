INSERT INTO orders (item) VALUES ('tea');
--
INSERT INTO orders (item) VALUES ('coffee');
SELECT COUNT(*) FROM orders;
