// What Swift needs of Debian's OpenSSL 3: its headers, and functions for the macros that Swift
// cannot import.
#ifndef PUSHSWEEP_COPENSSL_SHIM_H
#define PUSHSWEEP_COPENSSL_SHIM_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#endif
