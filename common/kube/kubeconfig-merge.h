// Merges a node's kubeconfig into a user's, as the original does. Pure but for the question.
//
// Everything that the user's has besides stays: users who log in by programs, extensions, the
// order of its entries. The new context becomes the current one.
#pragma once

#include <kj/async.h>
#include <kj/function.h>

#include "common/kube/json.h"
#include "common/kube/received-kubeconfig.h"

namespace talos::kube {

enum class MergeChoice { kRename, kOverwrite };

// How an entry is called in messages and in questions.
struct MergeKind {
  kj::StringPtr list, content;  // keys: clusters, cluster
  kj::StringPtr noun;           // auth info
  kj::StringPtr asked;          // user
};

struct MergeOptions {
  kj::StringPtr contextName = "";  // of the new context, instead of its own
  // About an entry that is there already and is another.
  kj::Function<kj::Promise<MergeChoice>(const MergeKind& kind, kj::StringPtr name)> decide;
};

struct MergedKubeconfig {
  Json config;
  kj::Vector<kj::String> renames;   // renamed context "a" -> "b"
  kj::Vector<kj::String> replaced;  // replaced context "a"
};

// `existing` may be null: then it is made. InvalidArgument when it is no kubeconfig.
kj::Promise<MergedKubeconfig> mergeKubeconfig(Json existing, ReceivedKubeconfig added,
                                              MergeOptions options);

}  // namespace talos::kube
