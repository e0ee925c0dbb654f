CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(20), stock INT);
CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, item INT, buyer VARCHAR(8));
INSERT INTO item (id, name, stock) VALUES (1, 'lamp', 1000000), (2, 'table', 1000000), (3, 'chair', 1000000), (4, 'rug', 1000000);
