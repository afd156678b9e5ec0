// Checks that this host can run nodes in containers, before anything is created.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::container {

// The features that nodes in containers need; by default the host has them all.
struct HostFeatures {
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

// The first missing feature and what to do about it, as a message; none if containers can run.
// Pure.
kj::Maybe<kj::String> missingFeature(const HostFeatures& host);

// Tries namespaces in a child, and asks the kernel for the file systems. It creates nothing; but a
// kernel that has a file system as a module loads it when asked, and keeps it.
HostFeatures probeHost();

}  // namespace talos::container
