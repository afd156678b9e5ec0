// Renders resources for `get`, and a watch as a list of changes.
#pragma once

#include <kj/map.h>

#include "common/wire/resource-registry.h"
#include "rpc/resources.capnp.h"
#include "talosctl/cli/table.h"

namespace talos::talosctl {

enum class ChangeKind { kNone, kCreated, kUpdated, kDestroyed };

// Returns a table with NODE [*] NAMESPACE TYPE ID VERSION and the type's own columns.
Table resourceTable(const ResourceType& type, bool watch);
kj::Array<kj::String> resourceRow(const ResourceType& type, kj::StringPtr node,
                                  rpc::Resource::Reader resource, bool watch,
                                  ChangeKind change = ChangeKind::kNone);
// Renders node, event (of a watch), metadata and spec. Ends with a newline. The spec of a config of
// several documents is their text, as what Talos' client prints, and can be applied again.
kj::String resourceYaml(const ResourceType& type, kj::StringPtr node,
                        rpc::Resource::Reader resource, ChangeKind change = ChangeKind::kNone);
kj::String resourceJson(const ResourceType& type, kj::StringPtr node,
                        rpc::Resource::Reader resource, ChangeKind change = ChangeKind::kNone);

// The resources of one node that a watch has shown. A second snapshot (sent if this reader was too
// slow) is shown as the changes since then. If a node sends more resources than any node has, it is
// refused: ResourceExhausted.
constexpr size_t kMostWatchedBytes = 64u << 20;
void requireWatchable(size_t bytes);

class WatchView {
 public:
  using Show = kj::Function<void(ChangeKind change, rpc::Resource::Reader resource)>;
  void snapshot(capnp::List<rpc::Resource>::Reader resources, Show show);
  void change(rpc::Change::Reader change, Show show);

 private:
  struct Known {
    kj::String namespace_, type;
    uint64_t version;
  };
  using Map = kj::TreeMap<kj::String, Known>;  // by "namespace/id"
  kj::Own<Map> known = kj::heap<Map>();
  size_t bytes = 0;  // size of `known`
  static size_t costOf(kj::StringPtr key, const Known& one);
  void remember(kj::String key, rpc::Metadata::Reader metadata);
  void forget(kj::StringPtr key);
};

}  // namespace talos::talosctl
