// Files of /etc that belong to this machine and not to the image. The image's root is read-only:
// its /etc/hosts and the like are links to /system/etc, which is a tmpfs.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

// A line of the hosts file from the machine config.
struct HostLine {
  kj::String address;
  kj::Vector<kj::String> names;
};
// Returns the hosts file. `address`: the machine's own; "" while it has no address. No argument can
// begin another line.
kj::String hostsFile(kj::StringPtr hostname, kj::StringPtr domainname, kj::StringPtr address = "",
                     kj::ArrayPtr<const HostLine> more = nullptr);

// Makes /system/{etc,run,var,state} below `root`, 0700; /system/etc is 0755, because every daemon
// reads it.
void setupSystemDirectory(kj::StringPtr root);

// Writes the hosts file until network.HostsController has more facts. The controller writes only
// changes, so an existing file stays as it is.
void writeFirstHostsFile(kj::StringPtr root, kj::StringPtr hostname);

// Returns the kernel's host name; empty if it is not set.
kj::String kernelHostname();

// Writes <root>/system/etc/<name>, 0644.
void writeEtcFile(kj::StringPtr root, kj::StringPtr name, kj::StringPtr content);

}  // namespace talos::machined
