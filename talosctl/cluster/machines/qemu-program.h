// Finds QEMU on this host, and tries whether KVM works.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::cluster {

// A QEMU of the tree of the build root beside this program (…/build/root), or the host's own.
struct Qemu {
  kj::String root;  // empty: `program` is the host's own
  kj::String program;
};
// `root` is the tree that the user named, or empty. Throws NotFound naming the places searched.
Qemu findQemu(kj::StringPtr root);

// The command line of QEMU with these arguments.
kj::Vector<kj::String> commandLine(const Qemu& qemu, kj::ArrayPtr<const kj::String> arguments);

// True if KVM really runs guests: a device that opens, and even runs instructions, is not enough
// (nested hosts offer one whose guests make no progress). Boots this kernel and waits up to 5 s for
// its first line.
bool kvmWorks(const Qemu& qemu, kj::StringPtr kernel);

}  // namespace talos::cluster
