// Gives cards their predictable names (plan/predictable-names.h), before anything else uses them.
//
// It looks at each card once, when it first appears: one that is up, or has addresses, is in use
// under its name and keeps it. A name that another link has, or that two cards would get, is not
// given: those cards keep the kernel's names, and the log says so. A name is set in one step and
// the kernel remembers that it was, so after a crash at any line the next networkd goes on with the
// cards that still have the kernel's names.
#pragma once

#include <kj/map.h>

#include "common/netlink/netlink.h"
#include "networkd/control/network-host.h"

namespace talos::networkd {

class LinkNamer {
 public:
  LinkNamer(netlink::Kernel& kernel, Host& host) : kernel(kernel), host(host) {}

  // True if a link has another name than in `observed` now.
  bool rename(const Observed& observed);

 private:
  netlink::Kernel& kernel;
  Host& host;
  kj::HashSet<unsigned> examined;  // by index, which the kernel does not use again
};

}  // namespace talos::networkd
