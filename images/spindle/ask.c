/*
 * spindle COMMAND …: asks the control socket of the disk in this container, and prints its answer. The disk's log names
 * the sender, which is the word in the variable SPINDLE_BY.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "spindle.h"

static int reach(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = CONTROL_SOCKET};
    int connection = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connection >= 0 && connect(connection, (struct sockaddr *)&address, sizeof address) == 0)
        return connection;
    perror("spindle: " CONTROL_SOCKET);
    return -1;
}

static void ask(int connection, int count, char **words)
{
    const char *sender = getenv("SPINDLE_BY");
    if (sender && *sender && !strchr(sender, ' '))
        dprintf(connection, "by=%s ", sender);
    for (int i = 0; i < count; i++)
        dprintf(connection, "%s%s", i ? " " : "", words[i]);
    dprintf(connection, "\n");
}

int main(int count, char **words)
{
    char answer[LINE_BYTES];
    int connection = reach();
    if (connection < 0)
        return 2;
    ask(connection, count - 1, words + 1);
    FILE *stream = fdopen(connection, "r");
    if (!stream || !fgets(answer, sizeof answer, stream)) {
        fprintf(stderr, "spindle: no answer\n");
        return 2;
    }
    if (strncmp(answer, "ok", 2) == 0) {
        fputs(answer + (answer[2] == ' ' ? 3 : 2), stdout);
        return 0;
    }
    fprintf(stderr, "spindle: %s", answer);
    return 1;
}
