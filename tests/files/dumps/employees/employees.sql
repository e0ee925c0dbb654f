--  In the manner of the sample database of this name, whose rows are in files of their own.
DROP TABLE IF EXISTS item;
CREATE TABLE item (
    id INT NOT NULL PRIMARY KEY,
    name VARCHAR(20)
);
flush /*!50503 binary */ logs;
SELECT 'LOADING items' as 'INFO';
source load_items.dump ;
source more/load_more.sql;
\. last.sql
