require("common")
function event()
  con:query("SELECT * FROM no_such_table")
end
