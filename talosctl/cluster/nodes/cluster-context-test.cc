#include "talosctl/cluster/nodes/cluster-context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "common/base/file.h"

namespace talos::cluster {
namespace {

using ::testing::ElementsAre;

Context contextOf(kj::StringPtr ca) {
  Context context;
  context.endpoints.add(kj::str("127.0.0.2"));
  context.ca = kj::str(ca);
  return context;
}

struct User {
  kj::String folder;
  kj::String path;
  StateDirectory state;

  static kj::String scratch() {
    char name[] = "/tmp/talosctl-context-XXXXXX";
    return kj::str(mkdtemp(name));
  }
  User() : folder(scratch()), path(kj::str(folder, "/config")), state(folder, "demo") {
    Talosconfig cluster;
    cluster.add("mine", contextOf("cluster's"));
    cluster.save(state.file("talosconfig"));
  }
  ~User() { removeTree(folder); }

  void has(std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> contexts) {
    Talosconfig config;
    for (auto& context : contexts) config.add(context.first, contextOf(context.second));
    config.save(path);
  }
  std::vector<std::string> names() {
    std::vector<std::string> all;
    auto config = Talosconfig::load(path);
    for (auto& row : config.contexts()) all.push_back(row.key.cStr());
    return all;
  }
};

// Catches: a cluster that takes contexts of the user's with it: with --input-dir they have the same
// CA.
TEST(ClusterContext, OnlyItsOwnIsRemoved) {
  User user;
  user.has({{"mine", "cluster's"}, {"other", "cluster's"}, {"third", "another"}});
  auto renamed = addContext(user.state, user.path);
  EXPECT_STREQ(KJ_ASSERT_NONNULL(renamed).to.cStr(), "mine-1");
  EXPECT_STREQ(Talosconfig::load(user.path).currentName().cStr(), "mine-1");
  EXPECT_THAT(user.names(), ElementsAre("mine", "mine-1", "other", "third"));
  removeContext(user.state, user.path);
  EXPECT_THAT(user.names(), ElementsAre("mine", "other", "third"));
}

// Catches: a context of another cluster that has got the name since, a failure where nothing is
// left.
TEST(ClusterContext, WhatTheUserMadeOfItSinceStays) {
  User user;
  EXPECT_TRUE(addContext(user.state, user.path) == nullptr);
  user.has({{"mine", "another"}});
  removeContext(user.state, user.path);
  EXPECT_THAT(user.names(), ElementsAre("mine"));
  user.has({});
  removeContext(user.state, user.path);
  EXPECT_THAT(user.names(), ElementsAre());
}

// Catches: an incomplete cluster that cannot be removed, or takes what it did not bring.
TEST(ClusterContext, ACreationThatDidNotGetSoFarRemovesNothing) {
  User user;
  user.has({{"mine", "cluster's"}});
  removeContext(user.state, user.path);
  EXPECT_THAT(user.names(), ElementsAre("mine"));
}

}  // namespace
}  // namespace talos::cluster
