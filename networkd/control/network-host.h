// The machine as networkd needs it besides its links: the host name, files, hardware.
#pragma once

#include <kj/async-unix.h>
#include <kj/string.h>

#include "networkd/plan/network-plan.h"

namespace talos::networkd {

class Host {
 public:
  virtual ~Host() noexcept(false) = default;
  virtual kj::String hostname() = 0;
  // Resolves at the next change of the host name.
  virtual kj::Promise<void> hostnameChanged() = 0;
  virtual bool ipv6() = 0;
  // The kernel goes on to take addresses and routes from router advertisements on this link though
  // the node forwards (accept_ra is 2 where it is 1; off is somebody's choice).
  virtual void acceptRouterAdvertisements(kj::StringPtr link) = 0;
  // Whole or not at all; writes nothing when the file has this content already.
  virtual void writeResolverFile(kj::StringPtr content) = 0;
  // The hardware of a link; empty for virtual links, and for fields that its driver does not
  // report.
  virtual Hardware hardware(const netlink::Link& link) = 0;
  // Of a card that has none yet, the best first (plan/predictable-names.h); empty: it has none, or
  // the kernel's names are to stay.
  virtual kj::Vector<kj::String> predictableNames(const netlink::Link& link) = 0;
  // A small file of ours beside the resolver file, written whole or not at all; empty before.
  virtual kj::String readFirstMtus() = 0;
  virtual void writeFirstMtus(kj::StringPtr content) = 0;
};

// The machine, with resolv.conf in `directory` (which exists and may be written).
kj::Own<Host> openHost(kj::UnixEventPort& port, kj::StringPtr directory, bool predictableNames);

}  // namespace talos::networkd
