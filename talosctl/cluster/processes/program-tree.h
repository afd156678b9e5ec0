// Programs of the build root's tree, which run on the host without a chroot.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::cluster {

// The command line of a program in a tree: through that tree's own loader and libraries, so there
// is no chroot, there are no mounts, and the host's C library does not matter. An empty root is the
// host itself.
kj::Vector<kj::String> inTree(kj::StringPtr root, kj::StringPtr program);

// The folder that holds this program's `image/` (…/build for …/build/out/talosctl).
kj::String buildFolder();

}  // namespace talos::cluster
