// What this host can run guests with.
#pragma once

#include <kj/string.h>

namespace talos::cluster {

// Whether KVM really works: a device that opens is not enough (nested hosts offer one whose guests
// never get anywhere). Runs three instructions in a virtual CPU, in a child with a deadline of 2 s.
bool kvmWorks();

// Where QEMU is: the tree of the build root beside this program (…/build/root), or the host's own.
struct Qemu {
  kj::String root;  // empty: `program` is the host's own
  kj::String program;
};
// `root` is what the user named, or empty. Throws NotFound saying where it looked.
Qemu findQemu(kj::StringPtr root);

// The folder that holds this program's `image/` (…/build for …/build/out/talosctl).
kj::String buildFolder();

}  // namespace talos::cluster
