// Programs of the build root's tree, which run on the host without a chroot.
//
// Local clusters run them as root, and they are found beside this program. So they are run only
// when nobody else can have put them there: `sudo /tmp/x/talosctl` must not run what is in
// /tmp/root.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <sys/types.h>

namespace talos::cluster {

// The command line of a program in a tree: through that tree's own loader and libraries, so there
// is no chroot, there are no mounts, and the host's C library does not matter. An empty root is the
// host itself.
kj::Vector<kj::String> inTree(kj::StringPtr root, kj::StringPtr program);

// The folder that holds this program's `image/` (…/build for …/build/out/talosctl).
kj::String buildFolder();

// Root, the user of this process, and below sudo the user who called it.
kj::Array<uid_t> trustedOwners();
// An error when somebody else could replace this file or folder: when it, or a folder above it,
// belongs to none of the owners or can be written by everybody. Links are followed first.
kj::Maybe<kj::String> pathError(kj::StringPtr path, kj::ArrayPtr<const uid_t> owners);
// The same of a tree, and of everything in it that local clusters run or load.
kj::Maybe<kj::String> treeError(kj::StringPtr tree, kj::ArrayPtr<const uid_t> owners);
// The same of a build root, which the build has marked as one.
kj::Maybe<kj::String> buildRootError(kj::StringPtr tree, kj::ArrayPtr<const uid_t> owners);

// A program of a tree; an empty root: of the host itself.
struct FoundProgram {
  kj::String root, program;
};
// The program with this path: that of `root`, which the user has named, else that of this build's
// root, else, with `orHost`, the host's own. Links to the tree are resolved, as they may change.
// NotFound names the places searched, and `hint`. PermissionDenied: a tree that somebody else could
// change, unless the host's program is used in its place; never in that of a named tree.
FoundProgram findProgram(kj::StringPtr root, kj::StringPtr path, bool orHost, kj::StringPtr hint);

}  // namespace talos::cluster
