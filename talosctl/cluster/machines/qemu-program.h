// Finds QEMU on this host, and tests if KVM works.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::cluster {

// A QEMU of the build root's tree beside this program (…/build/root), or the host's own.
struct Qemu {
  kj::String root;  // empty: `program` is the host's own
  kj::String program;
};
// Finds QEMU. `root` is the tree that the user named, or empty. Throws NotFound naming the places
// searched.
Qemu findQemu(kj::StringPtr root);

// Returns the command line of QEMU with these arguments.
kj::Vector<kj::String> commandLine(const Qemu& qemu, kj::ArrayPtr<const kj::String> arguments);

// Returns true if KVM really runs guests. A device that opens, and even executes instructions, is
// not enough: nested hosts offer a KVM whose guests make no progress. So this boots the kernel and
// waits up to 5 s for its first line.
bool kvmWorks(const Qemu& qemu, kj::StringPtr kernel);

}  // namespace talos::cluster
