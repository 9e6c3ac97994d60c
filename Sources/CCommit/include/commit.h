// The commit of the sources, which Package.swift takes from the environment of the build. Swift has
// no define with a value, so a C function holds it.
#ifndef PUSHSWEEP_CCOMMIT_H
#define PUSHSWEEP_CCOMMIT_H

const char *pushsweep_commit(void);

#endif
