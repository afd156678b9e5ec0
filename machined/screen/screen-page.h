// The one page of a machine's own screen, and the line that a serial console gets. Pure.
//
// Only characters of code page 437 are drawn: the kernel's built-in font has no others.
#pragma once

#include "common/screen/canvas.h"
#include "machined/screen/screen-facts.h"

namespace talos::machined {

constexpr size_t kLeastScreenRows = 20, kLeastScreenColumns = 60;

// For a screen of so many rows, of which the page takes its upper two thirds, or those that it
// needs: below it are the kernel's messages (virtual-terminal.h).
Canvas drawMachineScreen(const ScreenFacts& facts, size_t rows, size_t columns);

// "master-1 (10.5.0.2) is running: 9 of 9 services are healthy". Empty while there is nothing that
// the log does not say already: in a boot, and in maintenance mode.
kj::String summaryLine(const ScreenFacts& facts);
// It is worth another line when this is another text: where the node is, and whether it is well.
// Problems whose texts count something are not.
kj::String stateKey(const ScreenFacts& facts);

// The next step about a problem, by its text.
kj::StringPtr remedyOf(kj::StringPtr problem);

}  // namespace talos::machined
