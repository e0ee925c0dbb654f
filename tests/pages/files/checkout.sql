INSERT INTO orders (item, buyer) VALUES ({id:1..4}, '{buyer:8}');
UPDATE item SET stock = stock - 1 WHERE id = {id};
