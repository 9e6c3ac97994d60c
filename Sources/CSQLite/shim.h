// What Swift needs of SQLite.
#ifndef PUSHSWEEP_CSQLITE_SHIM_H
#define PUSHSWEEP_CSQLITE_SHIM_H

#include <sqlite3.h>

// sqlite3_db_config is variadic, which Swift does not import. Without these, a mistyped "column" is text.
static inline void pushsweep_sqlite_refuse_quoted_text(sqlite3 *db) {
    sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DDL, 0, (void *)0);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DML, 0, (void *)0);
}

#endif
