// The program. Its words are answered in `Commands`, a target of its own so that tests ask in their process
// what a command line is worth.

import Commands

Pushsweep.start()
