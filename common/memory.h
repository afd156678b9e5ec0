// Memory that a program needed only to start, given back.
#pragma once

namespace talos {

// Unmaps the pages of the program's own file (code and constants): the ones that are used come back
// from the page cache at their next use, in microseconds; those of start-up stay away. Gives free
// heap back, too. For a daemon that is done with starting. Never changes what the program does.
void releaseStartMemory();

}  // namespace talos
