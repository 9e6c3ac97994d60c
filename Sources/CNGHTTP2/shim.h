// What Swift needs of Debian's libnghttp2: its header. No logic: that is in SecureTransport.
#ifndef PUSHSWEEP_CNGHTTP2_SHIM_H
#define PUSHSWEEP_CNGHTTP2_SHIM_H

#include <nghttp2/nghttp2.h>

#endif
