-- Another word each time: an update that changes nothing is no commit.
function change(scale)
  local word = sysbench.rand.string("################")
  return ("UPDATE scaled SET word = '%s' WHERE id = %d"):format(word, sysbench.rand.uniform(1, scale))
end
