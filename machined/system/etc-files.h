// Files of /etc that belong to this machine and not to the image. The image's root is read-only:
// there /etc/hosts and the like are links to /system/etc, which is a tmpfs.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

// A line of the hosts file that the machine config asks for.
struct HostLine {
  kj::String address;
  kj::Vector<kj::String> names;
};
// `address` is the machine's own; "" while it has none. Nothing in it can begin a line of its own.
kj::String hostsFile(kj::StringPtr hostname, kj::StringPtr domainname, kj::StringPtr address = "",
                     kj::ArrayPtr<const HostLine> more = nullptr);

// mkdir 0700 of /system/{etc,run,var,state} below `root`; /system/etc is 0755, for every daemon
// reads it.
void setupSystemDirectory(kj::StringPtr root);

// The hosts file until network.HostsController knows more. That one writes only what is news to it,
// so a file that is there is left alone.
void writeFirstHostsFile(kj::StringPtr root, kj::StringPtr hostname);

// The name that the kernel has; empty while it has none.
kj::String kernelHostname();

// Writes <root>/system/etc/<name>, 0644.
void writeEtcFile(kj::StringPtr root, kj::StringPtr name, kj::StringPtr content);

}  // namespace talos::machined
