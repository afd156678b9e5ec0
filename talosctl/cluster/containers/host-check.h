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
    kj::StringPtr kind;  // kind in user.max_<kind>_namespaces: "pid"
    int error;           // errno
  };
  kj::Maybe<RefusedNamespace> refused = nullptr;
};

// Returns the first missing feature and the remedy, as a message; nullptr if containers can run.
// Pure.
kj::Maybe<kj::String> missingFeature(const HostFeatures& host);

// Tries namespaces in a child, and checks the kernel's file systems. Creates nothing; but a kernel
// with a file system as a module loads the module, and keeps it.
HostFeatures probeHost();

}  // namespace talos::container
