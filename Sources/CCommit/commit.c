#include "commit.h"

const char *pushsweep_commit(void) { return PUSHSWEEP_COMMIT; }
