-- The way of sysbench's own scripts: commands, of which prepare makes the table.
require "common"
sysbench.cmdline.options = { scale = {"Rows", 2} }
sysbench.cmdline.commands = {
  prepare = {function()
    local connection = sysbench.sql.driver():connect()
    connection:query("CREATE TABLE scaled (id INT PRIMARY KEY, word VARCHAR(20)) ENGINE=InnoDB")
    require("lib.rows").insert(connection, sysbench.opt.scale, "b")
  end, sysbench.cmdline.PARALLEL_COMMAND}
}
function event()
  event_writes = true
  con:query(change(sysbench.opt.scale))
end
