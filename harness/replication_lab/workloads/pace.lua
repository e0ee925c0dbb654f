-- Gives the transactions of a load their intended times: evenly spaced, and shared by all clients, so that a free client takes the
-- next one. Needs lab_timespec of the script that loads it.
-- Not sysbench's own --rate, because its gaps are random, a client looks for work only every clients/(2*rate) seconds, and a script
-- does not learn when an event should have begun; only sysbench's own histogram includes that wait.

local ffi = require("ffi")
ffi.cdef [[
  typedef struct { double origin; double taken; char lock[64]; } lab_pace;
  void *calloc(size_t number, size_t size);
  int setenv(const char *name, const char *value, int overwrite);
  int pthread_mutex_init(void *lock, const void *attributes);
  int pthread_mutex_lock(void *lock);
  int pthread_mutex_unlock(void *lock);
  int clock_nanosleep(int clock, int flags, const lab_timespec *until, lab_timespec *left);
  int prctl(int option, unsigned long value, unsigned long, unsigned long, unsigned long);
]]

local MONOTONIC, ABSOLUTE, TIMER_SLACK = 1, 1, 29
-- Each client is a thread with a Lua of its own: the address of what they share is in the environment.
local SHARED = "LAB_PACE"
local pace, until_then = {}, ffi.new("lab_timespec")
local shared

-- Called once, before there are clients.
function pace.open()
  local made = ffi.cast("lab_pace *", ffi.C.calloc(1, ffi.sizeof("lab_pace")))
  ffi.C.pthread_mutex_init(made.lock, nil)
  ffi.C.setenv(SHARED, ("%d"):format(tonumber(ffi.cast("intptr_t", made))), 1)
end

-- Called by each client: by default a thread may wake up 50 microseconds late.
function pace.join()
  shared = ffi.cast("lab_pace *", ffi.cast("intptr_t", tonumber(os.getenv(SHARED))))
  ffi.C.prctl(TIMER_SLACK, 1, 0, 0, 0)
end

-- Returns the number and the time of the next transaction; nil if there is none, or the load's time is over.
local function taken(now, rate, seconds, total)
  if shared.origin == 0 then shared.origin = now end
  local number = shared.taken
  if number >= total or now >= shared.origin + seconds * 1e6 then return nil end
  shared.taken = number + 1
  return shared.origin + number * 1e6 / rate
end

-- Waits for the next transaction's intended time and returns it, in microseconds; nil at the end of the load.
function pace.next(now, rate, seconds, total)
  ffi.C.pthread_mutex_lock(shared.lock)
  local intended = taken(now, rate, seconds, total)
  ffi.C.pthread_mutex_unlock(shared.lock)
  if intended and intended > now then
    until_then.seconds = math.floor(intended / 1e6)
    until_then.nanoseconds = math.floor(intended % 1e6 * 1e3)
    ffi.C.clock_nanosleep(MONOTONIC, ABSOLUTE, until_then, nil)
  end
  return intended
end

return pace
