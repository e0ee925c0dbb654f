local number = 0
function change(scale)
  number = number + 1
  return ("UPDATE scaled SET word = CONCAT('w', %d) WHERE id = %d"):format(number, sysbench.rand.uniform(1, scale))
end
