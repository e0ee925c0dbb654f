-- Sequential autocommit single-row inserts, each timed separately, as in the published test: foo(id, text), 8 random letters.
-- Keeps every latency, because sysbench's histogram has steps of 1.8 %, too coarse for a claim about one round trip.
-- Prints for each client "client BEGAN ENDED LATENCY LATENCY …" and, in one write so that no other client's line comes between,
-- "ends FIRST NEXT …": how long after BEGAN the first insert was answered, and each other one after the one before. Times are
-- seconds of one clock, latencies and ends microseconds. Then "lost NUMBER AT AT …": inserts that lost against another transaction,
-- after which sysbench makes another one, and when.

local ffi = require("ffi")
ffi.cdef [[
  typedef struct { long seconds; long nanoseconds; } lab_timespec;
  int clock_gettime(int clock, lab_timespec *now);
  int usleep(unsigned int microseconds);
]]

local together = dofile("/tmp/together.lua")

sysbench.cmdline.options = {
  lab_begin = together.option,
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
  latencies, ends, losses, first, last, began = {}, {}, {}, nil, nil, nil
  ended = 0
  together.wait(sysbench.opt.lab_begin)
end

function event()
  local statement = insert:format(sysbench.rand.string("@@@@@@@@"))
  local now = microseconds()
  -- The insert before raised an error.
  if began then losses[#losses + 1] = ("%.3f"):format(now / 1e6) end
  began = now
  connection:query(statement)
  last = microseconds()
  first = first or began
  latencies[#latencies + 1] = math.floor(last - began + 0.5)
  began = nil
  local after = math.floor(last - first + 0.5)
  ends[#ends + 1], ended = after - ended, after
  if sysbench.opt.think > 0 then ffi.C.usleep(sysbench.opt.think) end
end

function thread_done()
  connection:disconnect()
  if first then
    local times, answered = table.concat(latencies, " "), table.concat(ends, " ")
    io.stdout:write(("client %.6f %.6f %s\nends %s\n"):format(first / 1e6, last / 1e6, times, answered))
    if began then losses[#losses + 1] = ("%.3f"):format(began / 1e6) end
    if #losses > 0 then io.stdout:write(("lost %d %s\n"):format(#losses, table.concat(losses, " "))) end
  end
end
