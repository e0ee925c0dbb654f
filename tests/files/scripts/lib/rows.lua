local rows = {}
function rows.insert(connection, scale, word)
  for id = 1, scale do
    connection:query(("INSERT INTO scaled VALUES (%d, '%s')"):format(id, word))
  end
end
return rows
