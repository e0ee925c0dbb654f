-- The third statement fails.
CREATE TABLE item (id INT PRIMARY KEY);
INSERT INTO item VALUES (1);

INSERT INTO item
  VALUES (1),
         (2);
INSERT INTO item VALUES (3);
