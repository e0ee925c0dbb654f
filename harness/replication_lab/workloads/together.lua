-- Lets the clients of a load in several containers begin at the same moment. Needs lab_timespec of the script that loads it.
-- sysbench counts a load's time from the moment at which every client's thread_init has ended.

local ffi = require("ffi")
ffi.cdef [[
  int clock_nanosleep(int clock, int flags, const lab_timespec *until, lab_timespec *left);
]]

local MONOTONIC, ABSOLUTE = 1, 1
local together = { option = { "Second of the monotonic clock at which clients begin, 0 for at once", "0" } }

function together.wait(moment)
  local at = tonumber(moment)
  if at > 0 then
    local begin = ffi.new("lab_timespec", math.floor(at), math.floor(at % 1 * 1e9))
    ffi.C.clock_nanosleep(MONOTONIC, ABSOLUTE, begin, nil)
  end
end

return together
