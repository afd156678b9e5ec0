// Chooses the file of a kubeconfig, and writes it.
//
// A file is replaced atomically: after a crash it is the old one or the new one. Its owner stays
// the user, and only the user can read it (common/user/user-file.h), because it holds a key.
// kubectl's lock is held from the read to the write, and never during a question to the user.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include "common/kube/kubeconfig-merge.h"

namespace talos::talosctl {

constexpr uint16_t kKubernetesPort = 6443;  // port of API servers

struct KubeconfigTarget {
  kj::String path;
  bool merge = true, force = false;
  kj::String contextName;  // value of --force-context-name
};

// Returns the file to write. `given` is the path that the user named, or empty. By default, a merge
// uses the first file of `list`, which is $KUBECONFIG as kubectl reads it, or ~/.kube/config;
// without a merge it is ./kubeconfig. In a directory it is the file `kubeconfig`. InvalidArgument
// without a home directory.
kj::String kubeconfigPath(kj::StringPtr given, bool merge, kj::Maybe<kj::StringPtr> home,
                          kj::StringPtr list = "");

// Changes a node's kubeconfig so that it reaches the server at another host, port 6443, by the name
// in the server's certificate. Pure.
kube::ReceivedKubeconfig throughHost(kube::ReceivedKubeconfig kubeconfig, kj::StringPtr host);

// Renews the entries of the user's kubeconfig that lead to the server of `fresh`
// (kube::renewKubeconfig). Returns false, and writes nothing, if no entry does or no file exists.
kj::Promise<bool> renewUserKubeconfig(kj::Timer& timer, kj::StringPtr path,
                                      const kube::ReceivedKubeconfig& fresh);

// One line for each entry, as in MergedKubeconfig.
struct StoredKubeconfig {
  kj::Vector<kj::String> renames, replaced;
};

// Writes a node's kubeconfig, merged or not, and creates the folders above it. Conflict if there is
// a file and neither a merge nor a replacement is allowed. Calls `decide` for existing entries, and
// then reads the file again. Conflict also if another program holds kubectl's lock for more than
// two seconds.
kj::Promise<StoredKubeconfig> storeKubeconfig(
    kj::Timer& timer, KubeconfigTarget target, kube::ReceivedKubeconfig received,
    kj::Function<kj::Promise<kube::MergeChoice>(const kube::MergeKind&, kj::StringPtr)> decide);

}  // namespace talos::talosctl
