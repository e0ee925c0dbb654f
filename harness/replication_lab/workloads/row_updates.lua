-- Autocommit updates of single rows at random places: each touches a page of its own, nearly always another one.
-- sysbench prints how many there were.

sysbench.cmdline.options = {
  tables = { "Tables to change in turn, DATABASE.TABLE with commas between", "lab.wide" },
  rows = { "Rows of each table, numbered from 1", 1000 },
  width = { "Bytes that a change writes", 1000 },
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
