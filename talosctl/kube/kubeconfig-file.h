// Where a kubeconfig is put, and how it gets there.
//
// A file is replaced as a whole: after a crash it is the old one or the new one. It stays the
// user's and is the user's alone (common/user/user-file.h), for it holds a key. kubectl's lock is
// held from reading it until it is written, and never while somebody is asked.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include "common/kube/kubeconfig-merge.h"

namespace talos::talosctl {

struct KubeconfigTarget {
  kj::String path;
  bool merge = true, force = false;
  kj::String contextName;  // of --force-context-name
};

// `given`: what the user named, or empty. When it is merged the first file of `list`, which is
// $KUBECONFIG as kubectl reads it, or ~/.kube/config; else ./kubeconfig. In a directory the file
// `kubeconfig`. InvalidArgument without a home directory.
kj::String kubeconfigPath(kj::StringPtr given, bool merge, kj::Maybe<kj::StringPtr> home,
                          kj::StringPtr list = "");

// One line for each entry, as MergedKubeconfig has them.
struct StoredKubeconfig {
  kj::Vector<kj::String> renames, replaced;
};

// Writes what a node sent, merged or not, and makes the folders above it. Conflict when there is a
// file and it is neither to be merged nor replaced. `decide` is asked about entries that are there
// already, and then the file is read again. Conflict also when another program has kubectl's lock
// for more than two seconds.
kj::Promise<StoredKubeconfig> storeKubeconfig(
    kj::Timer& timer, KubeconfigTarget target, kube::ReceivedKubeconfig received,
    kj::Function<kj::Promise<kube::MergeChoice>(const kube::MergeKind&, kj::StringPtr)> decide);

}  // namespace talos::talosctl
