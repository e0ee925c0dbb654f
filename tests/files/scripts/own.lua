-- A script with options, a prepare of its own, and modules beside it.
require("common")
local rows = require("lib/rows")

sysbench.cmdline.options = {
  scale = {"Rows of the table", 1},
  word = {"What a row begins with", "a"},
}

function prepare()
  local connection = sysbench.sql.driver():connect()
  connection:query("CREATE TABLE scaled (id INT PRIMARY KEY, word VARCHAR(20)) ENGINE=InnoDB")
  rows.insert(connection, sysbench.opt.scale, sysbench.opt.word)
end

function event()
  event_writes = true
  con:query(change(sysbench.opt.scale))
end
