# Prints the statements of an SQL file one a line, which is the only form that every server reads from an init file.
# Fails (exit 1) where that is impossible: a client's command such as DELIMITER, a statement over the servers' limit.

BEGIN {
    LIMIT = 16000 # bytes; the servers' buffer for one statement of an init file is 20 000
}

{
    sub(/\r$/, "")
    if (at_start() && is_client_command($0)) give_up()
    scan($0)
    end_line()
}

END {
    if (inside != "") failed = 1
    if (!failed) end_statement()
    exit failed
}

function at_start() {
    return inside == "" && statement ~ /^[[:space:]]*$/
}

function is_client_command(line) {
    line = tolower(line)
    return line ~ /^[[:space:]]*delimiter[[:space:]]/ || line ~ /^[[:space:]]*(source|use)[[:space:]][^;]*$/
}

function give_up() {
    failed = 1
    exit
}

# `inside` is the quote that is open, "*" in a comment of the form /* */, or empty.
function scan(line,    i, c, two) {
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        two = substr(line, i, 2)
        if (inside == "*") {
            if (two == "*/") { inside = ""; c = two; i++ }
        } else if (inside != "") {
            if (c == "\\" && inside != "`") {
                if (i == length(line)) give_up()
                c = two
                i++
            } else if (c == inside) {
                inside = ""
            }
        } else if (c == "#" || two == "--" && substr(line, i + 2, 1) ~ /^[[:space:]]?$/) {
            return
        } else if (c == ";") {
            end_statement()
            continue
        } else if (c == "\\") {
            give_up()
        } else if (two == "/*") {
            inside = "*"
            c = two
            i++
        } else if (c ~ /['"`]/) {
            inside = c
        }
        statement = statement c
    }
}

function end_line() {
    if (inside == "`") give_up()
    statement = statement (inside == "'" || inside == "\"" ? "\\n" : " ")
}

function end_statement() {
    gsub(/^[[:space:]]+|[[:space:]]+$/, "", statement)
    if (length(statement) > LIMIT) give_up()
    if (statement != "") print statement ";"
    statement = ""
}
