// The pages of a machine's own screen, and the line that a serial console gets. Pure.
//
// Only characters of code page 437 are drawn: the kernel's built-in font has no others.
#pragma once

#include "common/screen/canvas.h"
#include "machined/screen/screen-facts.h"

namespace talos::machined {

constexpr size_t kLeastScreenRows = 20, kLeastScreenColumns = 60;

// Draws for a screen of so many rows, of which the page takes its upper two thirds, or as many as
// it needs: the kernel's messages are below it (virtual-terminal.h).
Canvas drawMachineScreen(const ScreenFacts& facts, size_t rows, size_t columns);
// Draws the links with their addresses, the gateways and servers, and what networkd could not do.
Canvas drawNetworkScreen(const ScreenFacts& facts, size_t rows, size_t columns);
// Draws the problems that the node knows, each with its remedy.
Canvas drawProblemsScreen(const ScreenFacts& facts, size_t rows, size_t columns);

// Returns "master-1 (10.5.0.2) is running: 9 of 9 services are healthy". Empty while the log
// already has everything: in a boot, and in maintenance mode.
kj::String summaryLine(const ScreenFacts& facts);
// Returns a text that changes when another line should be printed: with the node's address, and its
// health. Problems whose texts count something are left out.
kj::String stateKey(const ScreenFacts& facts);

// Returns the next step for a problem, by its text.
kj::StringPtr remedyOf(kj::StringPtr problem);

}  // namespace talos::machined
