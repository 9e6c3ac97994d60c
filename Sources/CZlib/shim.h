// What Swift needs of Debian's zlib. libmariadb-dev depends on it, so it needs no package of its own.
#ifndef PUSHSWEEP_CZLIB_SHIM_H
#define PUSHSWEEP_CZLIB_SHIM_H

#include <zlib.h>

// inflateInit2 is a macro, which Swift does not import. 15 + 16 asks for gzip.
static inline int pushsweep_inflate_gzip(z_stream *stream) {
    return inflateInit2(stream, 15 + 16);
}

#endif
