SELECT balance FROM account WHERE id = {id:1..10};
UPDATE account SET balance = {balance:0..2000000000} WHERE id = {id};
--
SELECT balance FROM account WHERE id = {id:1..10};
