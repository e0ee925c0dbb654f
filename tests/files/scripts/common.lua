dofile("statements.lua")
function thread_init()
  con = sysbench.sql.driver():connect()
end
