// Programs of the build root's tree, which run on the host without a chroot.
//
// Local clusters run them as root, and find them beside this program. So a program is run only if
// no other user can have put it there: `sudo /tmp/x/talosctl` must not run programs in /tmp/root.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <sys/types.h>

namespace talos::cluster {

// Returns the command line of a program in a tree. It uses the tree's own loader and libraries, so
// it needs no chroot and no mounts, and does not depend on the host's C library. An empty root is
// the host itself.
kj::Vector<kj::String> inTree(kj::StringPtr root, kj::StringPtr program);

// Returns the folder that holds this program's `image/` (…/build for …/build/out/talosctl).
kj::String buildFolder();

// Returns root, the user of this process, and under sudo the user who called it.
kj::Array<uid_t> trustedOwners();
// Returns an error if another user could replace this file or folder: if it, or a folder above it,
// belongs to none of the owners or is writable for everybody. A folder as /tmp, in which everybody
// can change only what is theirs, may be above a folder. Follows links first.
kj::Maybe<kj::String> pathError(kj::StringPtr path, kj::ArrayPtr<const uid_t> owners);
// Checks in the same way a tree, and everything in it that local clusters run or load.
kj::Maybe<kj::String> treeError(kj::StringPtr tree, kj::ArrayPtr<const uid_t> owners);
// Checks in the same way a build root, which the build has marked as such.
kj::Maybe<kj::String> buildRootError(kj::StringPtr tree, kj::ArrayPtr<const uid_t> owners);

// A program of a tree; with an empty root, of the host itself.
struct FoundProgram {
  kj::String root, program;
};
// Finds the program with this path: in `root`, if the user has named it, otherwise in this build's
// root, otherwise, with `orHost`, on the host. Resolves links to the tree, as they may change.
// NotFound names the places searched, and `hint`. PermissionDenied if another user could change the
// tree, unless the host's program replaces it; the host's program never replaces a program of a
// named tree.
FoundProgram findProgram(kj::StringPtr root, kj::StringPtr path, bool orHost, kj::StringPtr hint);

}  // namespace talos::cluster
