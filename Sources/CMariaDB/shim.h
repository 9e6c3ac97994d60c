// What Swift needs of Debian's libmariadb.
#ifndef PUSHSWEEP_CMARIADB_SHIM_H
#define PUSHSWEEP_CMARIADB_SHIM_H

#include <mariadb/mysql.h>
#include <mariadb/errmsg.h>
#include <mariadb/mysqld_error.h>

#endif
