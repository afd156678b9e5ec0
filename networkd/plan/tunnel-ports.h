// The UDP ports that configs gave to links of WireGuard, to be given back when the config has no
// port any more: the kernel shows a port that it chose itself in the same way. Pure; the reconciler
// keeps them in a file, written before the port is set, so a crash at any line loses none. A
// restart of the machine drops both the links and the file.
#pragma once

#include "networkd/plan/network-plan.h"

namespace talos::networkd {

// Adds the wanted ports of links that exist; returns true if it added any.
bool remember(std::vector<TunnelPort>& ports, const Wanted& wanted, const Observed& observed);
// Drops the ports that their link neither has nor should have; returns true if it dropped any. From
// then on the port is the choice of the kernel, or of another program.
bool forget(std::vector<TunnelPort>& ports, const Wanted& wanted, const Observed& observed);

// Formats one port a line, as "4 51820". The parser skips lines that it cannot read.
kj::String format(const std::vector<TunnelPort>& ports);
std::vector<TunnelPort> parseTunnelPorts(kj::StringPtr text);

}  // namespace talos::networkd
