// Merges a node's kubeconfig into a user's, as Talos does. Pure, except that it calls
// MergeOptions::decide.
//
// Everything else of the user's kubeconfig stays: users who log in by programs, extensions, the
// order of entries. The new context becomes the current one.
#pragma once

#include <kj/async.h>
#include <kj/function.h>

#include "common/kube/json.h"
#include "common/kube/received-kubeconfig.h"

namespace talos::kube {

enum class MergeChoice { kRename, kOverwrite };

// Names of a kind of entry in messages and in questions.
struct MergeKind {
  kj::StringPtr list, content;  // keys: clusters, cluster
  kj::StringPtr noun;           // auth info
  kj::StringPtr asked;          // user
};

struct MergeOptions {
  kj::StringPtr contextName = "";  // replaces the name of the new context
  // Decides about an existing entry that has the same name and another content.
  kj::Function<kj::Promise<MergeChoice>(const MergeKind& kind, kj::StringPtr name)> decide;
};

struct MergedKubeconfig {
  Json config;
  kj::Vector<kj::String> renames;   // renamed context "a" -> "b"
  kj::Vector<kj::String> replaced;  // replaced context "a"
};

// If `existing` is null, a new kubeconfig is made. Throws InvalidArgument if it is not a
// kubeconfig.
kj::Promise<MergedKubeconfig> mergeKubeconfig(Json existing, ReceivedKubeconfig added,
                                              MergeOptions options);

// Renews a kubeconfig after the CA of its cluster was replaced: each cluster with the server of
// `fresh` gets its CA, and each user of such a cluster whose certificate has the same common name
// gets its certificate and key. All else stays, also the current context. Returns false if no
// cluster has this server. Throws InvalidArgument if it is not a kubeconfig.
bool renewKubeconfig(Json& config, const ReceivedKubeconfig& fresh);

}  // namespace talos::kube
