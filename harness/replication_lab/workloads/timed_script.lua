-- Times each event of the script /tmp/load.lua, which may be any script of sysbench's.
-- Prints for each client the lines client, ends and lost as inserts.lua does; lost are events that were begun again. Also
-- "wrote NUMBER FASTEST": the events that changed something, for which the script sets the global variable event_writes, and the
-- fastest of them in microseconds from its first statement on.
-- With a rate (pace.lua) a latency begins when the event should have begun.

-- The script's modules are in a folder of their own.
local MODULES = "/tmp/load/"
package.path = MODULES .. "?.lua;" .. package.path
local plain_dofile = dofile
function dofile(name)
  local module = io.open(MODULES .. name)
  if module then module:close() end
  return plain_dofile(module and MODULES .. name or name)
end

dofile("/tmp/load.lua")

local ffi = require("ffi")
ffi.cdef [[
  typedef struct { long seconds; long nanoseconds; } lab_timespec;
  int clock_gettime(int clock, lab_timespec *now);
]]
local pace = dofile("/tmp/pace.lua")
local together = dofile("/tmp/together.lua")

sysbench.cmdline.options = sysbench.cmdline.options or {}
sysbench.cmdline.options.lab_rate = { "Events a second, 0 for as many as possible", "0" }
sysbench.cmdline.options.lab_seconds = { "Seconds of a load with a rate", "0" }
sysbench.cmdline.options.lab_events = { "Number of events of a load with a rate", "0" }
sysbench.cmdline.options.lab_begin = together.option

local MONOTONIC = 1
local clock = ffi.new("lab_timespec")
local intended, began, first, last, fastest
local latencies, ends, losses, wrote, ended = {}, {}, {}, 0, 0
local rate, seconds, events
local script = { init = init, thread_init = thread_init, event = event, thread_done = thread_done }

local function microseconds()
  ffi.C.clock_gettime(MONOTONIC, clock)
  return tonumber(clock.seconds) * 1e6 + tonumber(clock.nanoseconds) / 1e3
end

-- A script may need no tables of its own.
if not prepare and not (sysbench.cmdline.commands and sysbench.cmdline.commands.prepare) then
  function prepare() end
end

function init()
  pace.open()
  if script.init then script.init() end
end

function thread_init(id)
  rate, seconds = tonumber(sysbench.opt.lab_rate), tonumber(sysbench.opt.lab_seconds)
  events = tonumber(sysbench.opt.lab_events)
  pace.join()
  if script.thread_init then script.thread_init(id) end
  together.wait(sysbench.opt.lab_begin)
end

function event(id)
  if began then
    -- The event lost against another one and raised an error, and sysbench begins it again: its latency includes that.
    losses[#losses + 1] = ("%.3f"):format(microseconds() / 1e6)
  else
    began = microseconds()
    intended = began
    if rate > 0 then
      intended = pace.next(began, rate, seconds, events)
      began = intended and microseconds()
      if not intended then return true end
    end
  end
  local ends_load = script.event(id)
  last = microseconds()
  first = first or intended
  latencies[#latencies + 1] = math.floor(last - intended + 0.5)
  local after = math.floor(last - first + 0.5)
  ends[#ends + 1], ended = after - ended, after
  if event_writes then
    local taken = math.floor(last - began + 0.5)
    wrote = wrote + 1
    fastest = math.min(fastest or taken, taken)
  end
  began = nil
  return ends_load
end

function thread_done(id)
  if script.thread_done then script.thread_done(id) end
  if first then
    local times, answered = table.concat(latencies, " "), table.concat(ends, " ")
    io.stdout:write(("client %.6f %.6f %s\nends %s\n"):format(first / 1e6, last / 1e6, times, answered))
    if wrote > 0 then io.stdout:write(("wrote %d %d\n"):format(wrote, fastest)) end
    if #losses > 0 then io.stdout:write(("lost %d %s\n"):format(#losses, table.concat(losses, " "))) end
  end
end
