-- Autocommit updates of single random rows. Nearly every update touches a different page.
-- sysbench prints their number.

sysbench.cmdline.options = {
  tables = { "Tables to update in turn: DATABASE.TABLE, separated by commas", "lab.wide" },
  rows = { "Number of rows per table, numbered from 1", 1000 },
  width = { "Bytes written by each update", 1000 },
}

function thread_init()
  connection = sysbench.sql.driver():connect()
  statements, turn = {}, sysbench.tid
  for name in sysbench.opt.tables:gmatch("[^,]+") do
    statements[#statements + 1] = "UPDATE " .. name .. " SET text = REPEAT('%s', %d) WHERE id = %d"
  end
end

function event()
  turn = turn + 1
  local statement = statements[turn % #statements + 1]
  local repeats = math.ceil(sysbench.opt.width / 10)
  connection:query(statement:format(sysbench.rand.string("@@@@@@@@@@"), repeats, sysbench.rand.uniform(1, sysbench.opt.rows)))
end

function thread_done()
  connection:disconnect()
end
