// The parts of the machine that networkd needs besides its links: the host name, files, hardware.
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
  // Makes the kernel keep accepting addresses and routes from router advertisements on this link
  // although the node forwards: sets accept_ra to 2 if it is 1 (0 is an administrator's choice).
  virtual void acceptRouterAdvertisements(kj::StringPtr link) = 0;
  // Write the whole file or nothing, and nothing if the file already has this content: the file of
  // the node, and the file of pods.
  virtual void writeResolverFile(kj::StringPtr content) = 0;
  virtual void writePodResolverFile(kj::StringPtr content) = 0;
  // Returns the hardware of a link; empty for virtual links, and for fields that the link's driver
  // does not report.
  virtual Hardware hardware(const netlink::Link& link) = 0;
  // Returns the names for a card that still has the kernel's name, the best first
  // (plan/predictable-names.h); empty if the card needs none, or the kernel's names are to stay.
  virtual kj::Vector<kj::String> predictableNames(const netlink::Link& link) = 0;
  // Small files of networkd beside the resolver file, each written whole or not at all; empty if it
  // does not exist.
  virtual kj::String readFirstMtus() = 0;
  virtual void writeFirstMtus(kj::StringPtr content) = 0;
  virtual kj::String readTunnelPorts() = 0;
  virtual void writeTunnelPorts(kj::StringPtr content) = 0;
};

// Opens the machine, with the resolver files in `directory` (which exists and is writable).
kj::Own<Host> openHost(kj::UnixEventPort& port, kj::StringPtr directory, bool predictableNames);

}  // namespace talos::networkd
