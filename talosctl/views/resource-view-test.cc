#include "talosctl/views/resource-view.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/base/resource.h"
#include "common/yaml/yaml.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::talosctl {
namespace {

// Catches: a node whose watch names resources without an end, all of which the client keeps; a
// limit that counts resources that have been removed.
TEST(WatchViews, WhatANodeMakesTheClientKeepIsBounded) {
  WatchView view;
  size_t shown = 0;
  auto padding = kj::str(kj::repeat('x', 1u << 20));
  auto change = [&](rpc::Change::Event event, unsigned number) {
    capnp::MallocMessageBuilder message;
    auto change = message.initRoot<rpc::Change>();
    change.setEvent(event);
    change.initResource().initMetadata().setId(kj::str(padding, number));
    return kj::runCatchingExceptions([&] { view.change(change, [&](auto, auto) { ++shown; }); });
  };
  constexpr unsigned kMost = kMostWatchedBytes >> 20;
  for (unsigned i = 0; i < 3 * kMost; ++i) {
    EXPECT_TRUE(change(rpc::Change::Event::CREATED, i) == nullptr);
    EXPECT_TRUE(change(rpc::Change::Event::UPDATED, i) == nullptr);
    EXPECT_TRUE(change(rpc::Change::Event::DESTROYED, i) == nullptr);
  }
  EXPECT_EQ(shown, 9 * kMost);
  unsigned refused = 0;
  for (unsigned i = 0; i < kMost + 8; ++i) {
    auto failure = change(rpc::Change::Event::CREATED, i);
    KJ_IF_MAYBE (e, failure) {
      EXPECT_EQ(kindOf(*e), ErrorKind::kResourceExhausted);
      ++refused;
    }
  }
  EXPECT_GE(refused, 8u);
  EXPECT_LE(refused, 10u);
}

// Catches: documents that get lost between "get mc -o yaml" or "-o json" and "apply-config -f",
// such as those of a firewall.
TEST(ResourceView, HasEachDocumentOfAConfig) {
  Registry registry;
  auto& type = KJ_ASSERT_NONNULL(registry.byName(typeName<rpc::MachineConfigSpec>()));
  for (kj::StringPtr config :
       {"machine:\n    type: worker # a\n---\nkind: B\n"_kj,
        "---\nkind: B\n---\n# c\nmachine: {}\n"_kj, "a: 1 \n---\nb: 2\n\n"_kj}) {
    capnp::MallocMessageBuilder message;
    auto resource = message.initRoot<rpc::Resource>();
    resource.initMetadata().setType(type.name);
    resource.getSpec().initAs<rpc::MachineConfigSpec>().setDocument(config);
    for (auto& shown : {resourceYaml(type, "n", resource, ChangeKind::kNone),
                        resourceJson(type, "n", resource, ChangeKind::kNone)}) {
      Problems problems;
      codec::YamlStream stream(shown, "", problems);
      ASSERT_EQ(stream.documents().size(), 1u) << shown.cStr();
      EXPECT_EQ(stream.documents()[0]->entries.back().value->text, config) << shown.cStr();
    }
  }
}

}  // namespace
}  // namespace talos::talosctl
