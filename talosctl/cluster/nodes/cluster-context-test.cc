#include "talosctl/cluster/nodes/cluster-context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <unistd.h>

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
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
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

  kj::Maybe<Talosconfig::Rename> add() { return addContext(timer, state, path).wait(scope); }
  void remove() { removeContext(timer, state, path).wait(scope); }
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

// Catches: a cluster that removes contexts of the user: with --input-dir they have the same CA.
TEST(ClusterContext, OnlyItsOwnIsRemoved) {
  User user;
  user.has({{"mine", "cluster's"}, {"other", "cluster's"}, {"third", "another"}});
  auto renamed = user.add();
  EXPECT_STREQ(KJ_ASSERT_NONNULL(renamed).to.cStr(), "mine-1");
  EXPECT_STREQ(Talosconfig::load(user.path).currentName().cStr(), "mine-1");
  EXPECT_THAT(user.names(), ElementsAre("mine", "mine-1", "other", "third"));
  user.remove();
  EXPECT_THAT(user.names(), ElementsAre("mine", "other", "third"));
}

// Catches: the removal of another cluster's context that has the name since; a failure if no
// context is left.
TEST(ClusterContext, WhatTheUserMadeOfItSinceStays) {
  User user;
  EXPECT_TRUE(user.add() == nullptr);
  user.has({{"mine", "another"}});
  user.remove();
  EXPECT_THAT(user.names(), ElementsAre("mine"));
  user.has({});
  user.remove();
  EXPECT_THAT(user.names(), ElementsAre());
}

// Uses the cluster's own file as $TALOSCONFIG, as the demo does. Catches: a context that is in this
// file twice, or that a destroy removes before the cluster is gone.
TEST(ClusterContext, ThatOfTheClustersOwnFileIsThere) {
  User user;
  user.path = user.state.file("talosconfig");
  EXPECT_TRUE(user.add() == nullptr);
  EXPECT_THAT(user.names(), ElementsAre("mine"));
  user.remove();
  EXPECT_THAT(user.names(), ElementsAre("mine"));
}

// Catches: an incomplete cluster that cannot be removed, or that removes a context that it did not
// add.
TEST(ClusterContext, ACreationThatDidNotGetSoFarRemovesNothing) {
  User user;
  user.has({{"mine", "cluster's"}});
  user.remove();
  EXPECT_THAT(user.names(), ElementsAre("mine"));
}

// Catches: a lost entry that another command writes at the same time.
TEST(ClusterContext, WaitsForAnotherProgramThatChangesTheFile) {
  User user;
  user.has({{"other", "another"}});
  writeFileAtomically(kj::str(user.path, ".lock"), ""_kj, 0600);
  auto adding = addContext(user.timer, user.state, user.path);
  EXPECT_FALSE(adding.poll(user.scope));
  EXPECT_EQ(tryReadFile(user.state.file("context")), nullptr);
  EXPECT_THAT(user.names(), ElementsAre("other"));
  user.has({{"other", "another"}, {"third", "another"}});
  KJ_SYSCALL(unlink(kj::str(user.path, ".lock").cStr()));
  user.timer.advanceTo(user.timer.now() + 1 * kj::SECONDS);
  adding.wait(user.scope);
  EXPECT_THAT(user.names(), ElementsAre("mine", "other", "third"));
}

}  // namespace
}  // namespace talos::cluster
