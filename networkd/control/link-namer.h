// Gives network cards their predictable names (plan/predictable-names.h), before any other part
// uses the cards.
//
// The namer looks at each card once, when the card first appears. A card that is up or has
// addresses is in use under its name and keeps it. A name that another link has, or that two cards
// would get, is not given: these cards keep the kernel's names, and the log says so. A name is set
// in one step and the kernel remembers that it was set, so after a crash at any line the next
// networkd continues with the cards that still have the kernel's names.
#pragma once

#include <kj/map.h>

#include "common/netlink/netlink.h"
#include "networkd/control/network-host.h"

namespace talos::networkd {

class LinkNamer {
 public:
  LinkNamer(netlink::Kernel& kernel, Host& host) : kernel(kernel), host(host) {}

  // Returns true if a link now has another name than in `observed`.
  bool rename(const Observed& observed);

 private:
  netlink::Kernel& kernel;
  Host& host;
  kj::HashSet<unsigned> examined;  // by index, which the kernel does not reuse
};

}  // namespace talos::networkd
