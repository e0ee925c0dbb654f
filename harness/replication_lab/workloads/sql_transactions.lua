-- Runs the transactions in the table `transactions`, which stands above: all of them in a random order, then in another one.
-- A statement is a list of text, parameter, text, …

local order, position, pending = {}, 0, nil

local function next_transaction()
  if position == #order then
    for number, transaction in ipairs(transactions) do order[number] = transaction end
    for number = #order, 2, -1 do
      local other = tonumber(sysbench.rand.uniform(1, number))
      order[number], order[other] = order[other], order[number]
    end
    position = 0
  end
  position = position + 1
  return order[position]
end

local function drawn(parameter)
  if parameter.letters then return sysbench.rand.string(("@"):rep(parameter.letters)) end
  return ("%d"):format(tonumber(sysbench.rand.uniform(parameter.low, parameter.high)))
end

local function filled(statement, values)
  local texts = {}
  for number, text in ipairs(statement) do texts[number] = number % 2 == 1 and text or values[text] end
  return table.concat(texts)
end

local function begun()
  local transaction, values, texts = next_transaction(), {}, {}
  for _, parameter in ipairs(transaction.parameters) do values[parameter.name] = drawn(parameter) end
  for number, statement in ipairs(transaction.statements) do texts[number] = filled(statement, values) end
  return { texts = texts, writes = transaction.writes }
end

function thread_init()
  connection = sysbench.sql.driver():connect()
end

function event()
  -- One that lost against another transaction is tried again, with the same values.
  pending = pending or begun()
  for _, text in ipairs(pending.texts) do connection:query(text) end
  event_writes = pending.writes
  pending = nil
end

function sysbench.hooks.before_restart_event()
  connection:query("ROLLBACK")
end

function thread_done()
  connection:disconnect()
end
