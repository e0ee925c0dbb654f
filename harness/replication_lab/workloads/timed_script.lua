-- Times each event of the script /tmp/load.lua, which may be any script of sysbench's.
-- Prints for each client "client BEGAN ENDED LATENCY LATENCY …" as sequential_inserts.lua does, and "wrote NUMBER FASTEST": the events
-- that changed something, for which the script sets the global variable event_writes, and the fastest of them in microseconds.

dofile("/tmp/load.lua")

local ffi = require("ffi")
ffi.cdef [[
  typedef struct { long seconds; long nanoseconds; } lab_timespec;
  int clock_gettime(int clock, lab_timespec *now);
]]

local MONOTONIC = 1
local clock = ffi.new("lab_timespec")
local began, first, last, fastest
local latencies, wrote = {}, 0
local script = { thread_init = thread_init, event = event, thread_done = thread_done }

local function microseconds()
  ffi.C.clock_gettime(MONOTONIC, clock)
  return tonumber(clock.seconds) * 1e6 + tonumber(clock.nanoseconds) / 1e3
end

-- A script may need no tables of its own.
if not prepare and not (sysbench.cmdline.commands and sysbench.cmdline.commands.prepare) then
  function prepare() end
end

function thread_init(id)
  if script.thread_init then script.thread_init(id) end
end

function event(id)
  -- An event that lost against another one raises an error, and sysbench begins it again: its latency includes that.
  began = began or microseconds()
  local ends_load = script.event(id)
  last = microseconds()
  first = first or began
  local latency = math.floor(last - began + 0.5)
  latencies[#latencies + 1] = latency
  if event_writes then
    wrote = wrote + 1
    fastest = math.min(fastest or latency, latency)
  end
  began = nil
  return ends_load
end

function thread_done(id)
  if script.thread_done then script.thread_done(id) end
  if first then
    io.stdout:write(("client %.6f %.6f %s\n"):format(first / 1e6, last / 1e6, table.concat(latencies, " ")))
    if wrote > 0 then io.stdout:write(("wrote %d %d\n"):format(wrote, fastest)) end
  end
end
