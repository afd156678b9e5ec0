// Finds the keys of a written config that Talos 1.9 does not have, for tests. Talos' client and
// library decode strictly, and refuse a whole config for one such key.
#pragma once

#include <kj/vector.h>

#include <cstdlib>

#include "common/base/annotation.h"
#include "common/config/config.h"
#include "common/yaml/yaml.h"
#include "rpc/config.capnp.h"

namespace talos::config {

class OriginalKeys {
 public:
  // Returns the paths, each once; empty for a config that Talos 1.9 understands.
  static kj::Vector<kj::String> unknownIn(kj::StringPtr yaml) {
    OriginalKeys keys;
    Problems problems;
    codec::YamlStream stream(yaml.asArray(), "config", problems);
    for (auto document : stream.documents()) {
      keys.mapping(*document, capnp::Schema::from<Config>(), "");
    }
    return kj::mv(keys.found);
  }

 private:
  // Keys of ours, and one that was removed after 0.9. Everything else of the schema was in 0.9, or
  // names the version that added it ($since).
  static constexpr kj::StringPtr kOwn[] = {
      "machine.caHash"_kj,
      "machine.install.imageKey"_kj,
      "machine.watchdog"_kj,
      "machine.metrics"_kj,
      "machine.logging.destinations.streams"_kj,
      "machine.logging.destinations.ca"_kj,
      "machine.logging.destinations.bufferSize"_kj,
      "machine.logging.destinations.headers"_kj,
      "machine.logging.destinations.compression"_kj,
      "machine.network.interfaces.routes.onlink"_kj,
      "machine.network.interfaces.vlans.routes.onlink"_kj,
      "machine.network.interfaces.vip.leaseTTL"_kj,
      "machine.network.interfaces.vlans.vip.leaseTTL"_kj,
      "machine.systemDiskEncryption.state.keys.recovery"_kj,
      "machine.systemDiskEncryption.ephemeral.keys.recovery"_kj,
      "cluster.etcd.backup"_kj,
      "cluster.trustd"_kj,
      "cluster.kubernetesVersion"_kj,
      "cluster.podCheckpointer"_kj,
  };
  kj::Vector<kj::String> found;

  static bool isLater(kj::StringPtr since) {
    return since.startsWith("v1.") && atoi(since.slice(3).cStr()) > 9;
  }

  void value(const codec::YamlNode& node, capnp::Type type, bool map, kj::StringPtr path) {
    if (type.isList()) {
      auto element = type.asList().getElementType();
      if (map) {
        auto below = element.asStruct().getFieldByName("value").getType();
        for (auto& entry : node.entries) value(*entry.value, below, false, path);
      } else {
        for (auto item : node.items) value(*item, element, false, path);
      }
    } else if (type.isStruct()) {
      mapping(node, type.asStruct(), path);
    }
  }

  void mapping(const codec::YamlNode& node, capnp::StructSchema schema, kj::StringPtr above) {
    for (auto& entry : node.entries) {
      auto path = kj::str(above, above.size() == 0 ? "" : ".", entry.key);
      bool known = false;
      for (auto field : schema.getFields()) {
        if (annotation::nameOf(field) != entry.key) continue;
        known = !isLater(annotation::text(field, annotation::kSince));
        for (auto own : kOwn) known = known && path != own;
        if (!known) break;
        value(*entry.value, field.getType(), annotation::has(field, annotation::kMap), path);
      }
      if (!known) found.add(kj::mv(path));
    }
  }
};

}  // namespace talos::config
