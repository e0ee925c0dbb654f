-- Sequential autocommit single-row inserts, each timed separately, as in the published test: foo(id, text), 8 random letters.
-- Keeps every latency, because sysbench's histogram has steps of 1.8 %, too coarse for a claim about one round trip.
-- Prints one line per client: "client BEGAN ENDED LATENCY LATENCY …". Times are seconds of one clock, latencies microseconds. Then
-- "lost NUMBER": inserts that lost against another transaction, after which sysbench makes another one.

local ffi = require("ffi")
ffi.cdef [[
  typedef struct { long seconds; long nanoseconds; } lab_timespec;
  int clock_gettime(int clock, lab_timespec *now);
  int usleep(unsigned int microseconds);
]]

sysbench.cmdline.options = {
  table = { "Table to insert into", "foo" },
  think = { "Microseconds that a client pauses after each insert", 0 },
}

local MONOTONIC = 1
local clock = ffi.new("lab_timespec")

local function microseconds()
  ffi.C.clock_gettime(MONOTONIC, clock)
  return tonumber(clock.seconds) * 1e6 + tonumber(clock.nanoseconds) / 1e3
end

function thread_init()
  connection = sysbench.sql.driver():connect()
  insert = "INSERT INTO " .. sysbench.opt.table .. " (text) VALUES ('%s')"
  latencies, first, last, attempts = {}, nil, nil, 0
end

function event()
  local statement = insert:format(sysbench.rand.string("@@@@@@@@"))
  attempts = attempts + 1
  local began = microseconds()
  connection:query(statement)
  last = microseconds()
  first = first or began
  latencies[#latencies + 1] = math.floor(last - began + 0.5)
  if sysbench.opt.think > 0 then ffi.C.usleep(sysbench.opt.think) end
end

function thread_done()
  connection:disconnect()
  if first then
    io.stdout:write(("client %.6f %.6f %s\n"):format(first / 1e6, last / 1e6, table.concat(latencies, " ")))
    if attempts > #latencies then io.stdout:write(("lost %d\n"):format(attempts - #latencies)) end
  end
end
