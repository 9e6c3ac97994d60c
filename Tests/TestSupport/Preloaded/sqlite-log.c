/* A log of the statements that a program runs on SQLite, for a program that has this library preloaded; as the general
 * log of a server.
 *
 * SQLite's authorizer names the table that a statement writes while the statement is prepared, whatever the statement
 * looks like. So beside each statement that is run the log has those that the authorizer heard of for one table.
 *
 * SQLITE_LOG        the file, to which lines are appended: connection, TAB, R or W, TAB, statement on one line.
 *                   R: the statement is run, with its values; W: it was prepared, and writes the table
 * SQLITE_LOG_TABLE  the table
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __thread int writes;

static void *real(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) abort();
    return function;
}

static void note(sqlite3 *connection, char kind, const char *statement) {
    const char *path = getenv("SQLITE_LOG");
    char *line = NULL;
    int length, file;
    if (!path || !statement) return;
    length = asprintf(&line, "%d-%p\t%c\t%s\n", (int)getpid(), (void *)connection, kind, statement);
    if (length < 0) abort();
    for (char *place = line; place < line + length - 1; place++)
        if (*place == '\n') *place = ' ';
    file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line, (size_t)length) != length) abort();
    close(file);
    free(line);
}

static int run(unsigned kind, void *connection, void *statement, void *text) {
    char *expanded;
    (void)kind;
    /* A trigger's statements come as comments. */
    if (text && !strncmp(text, "--", 2)) return 0;
    expanded = sqlite3_expanded_sql(statement);
    note(connection, 'R', expanded);
    sqlite3_free(expanded);
    return 0;
}

static int authorize(void *unused, int action, const char *table, const char *column, const char *database,
                     const char *trigger) {
    const char *own = getenv("SQLITE_LOG_TABLE");
    (void)unused, (void)column, (void)database, (void)trigger;
    if ((action == SQLITE_INSERT || action == SQLITE_UPDATE || action == SQLITE_DELETE) && own && table &&
        !sqlite3_stricmp(table, own))
        writes = 1;
    return SQLITE_OK;
}

int sqlite3_open_v2(const char *path, sqlite3 **connection, int flags, const char *files) {
    int (*open_real)(const char *, sqlite3 **, int, const char *) = real("sqlite3_open_v2");
    int result = open_real(path, connection, flags, files);
    if (result == SQLITE_OK) {
        sqlite3_trace_v2(*connection, SQLITE_TRACE_STMT, run, *connection);
        sqlite3_set_authorizer(*connection, authorize, NULL);
    }
    return result;
}

int sqlite3_prepare_v2(sqlite3 *connection, const char *text, int length, sqlite3_stmt **statement,
                       const char **rest) {
    int (*prepare)(sqlite3 *, const char *, int, sqlite3_stmt **, const char **) = real("sqlite3_prepare_v2");
    int result;
    writes = 0;
    result = prepare(connection, text, length, statement, rest);
    if (result == SQLITE_OK && writes && *statement) note(connection, 'W', sqlite3_sql(*statement));
    return result;
}

int sqlite3_exec(sqlite3 *connection, const char *text, int (*row)(void *, int, char **, char **), void *context,
                 char **message) {
    int (*execute)(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **) =
        real("sqlite3_exec");
    int result;
    writes = 0;
    result = execute(connection, text, row, context, message);
    if (writes) note(connection, 'W', text);
    return result;
}
