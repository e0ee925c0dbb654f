#!/bin/bash
# Runs the program that the arguments name, and tells what it has told: all of it at the first line of standard input, at
# each later line what it told since. It ends with its program, and both end with the conversation.
exec 3< <(exec "$@")
teller=$!
while read -r _ && kill -0 $teller; do
    echo since the last question:
    while read -r -t 0 -u 3 && IFS= read -r -u 3 line; do echo "$line"; done
    echo
done
kill $teller
