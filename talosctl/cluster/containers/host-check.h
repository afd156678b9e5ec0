// Whether this host can run containers, found out before anything is made.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::container {

// What is missing; the defaults are a host that has everything.
struct HostAbility {
  bool root = true;
  bool cgroup2 = true;  // alone, or beside v1
  bool loopDevices = true;
  bool squashfs = true, overlay = true;
  struct RefusedNamespace {
    kj::StringPtr kind;  // as in user.max_<kind>_namespaces: "pid"
    int error;           // errno
  };
  kj::Maybe<RefusedNamespace> refused = nullptr;
};

// What a user should know first, and what to do; none if containers can run. Pure.
kj::Maybe<kj::String> whyNoContainers(const HostAbility& host);

// Tries it: namespaces in a child, file systems by asking the kernel for them. It makes nothing;
// but a kernel that has a file system as a module loads it when it is asked, and keeps it.
HostAbility probeHost();

}  // namespace talos::container
