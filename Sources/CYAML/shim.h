// What Swift needs of Debian's libyaml, which reads YAML 1.1.
#ifndef PUSHSWEEP_CYAML_SHIM_H
#define PUSHSWEEP_CYAML_SHIM_H

#include <yaml.h>

#endif
