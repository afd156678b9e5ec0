// Runs `cluster` commands that need no machine.
#include "talosctl/cluster/cluster-command.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "common/base/file.h"
#include "common/talosconfig/talosconfig.h"
#include "talosctl/cli/run-command.h"
#include "talosctl/cli/test-console.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;

// Catches: an empty variable of a script, or "..", that makes the command remove the folders of all
// clusters.
TEST(ClusterCommand, OnlyAClustersOwnFolderIsRemoved) {
  char path[] = "/tmp/talosctl-cluster-XXXXXX";
  kj::String folder = kj::str(mkdtemp(path));
  KJ_DEFER(removeTree(folder));
  auto clusters = kj::str(folder, "/clusters");
  makeDirectories(kj::str(clusters, "/a"), 0700);
  ConsoleFixture test;
  auto root = newRoot();
  addClusterCommands(*root);
  for (kj::StringPtr name : {""_kj, "."_kj, ".."_kj, "a/.."_kj, "../clusters"_kj, "A"_kj}) {
    kj::StringPtr arguments[] = {"cluster", "destroy", "--state", clusters, "--name", name};
    EXPECT_EQ(run(test.deps, *root, arguments, kj::NEVER_DONE).wait(test.io.waitScope), 1);
    EXPECT_THAT(test.console.takeErr().cStr(), HasSubstr("is not a valid cluster name"));
  }
  EXPECT_EQ(access(kj::str(clusters, "/a").cStr(), F_OK), 0);
}

// Catches: a first cluster under sudo that makes root own the folder of the talosconfig.
TEST(ClusterCommand, TheFoldersAboveTheStateAreTheCallers) {
  ASSERT_EQ(geteuid(), 0u) << "needs root";
  char path[] = "/tmp/talosctl-cluster-XXXXXX";
  kj::String home = kj::str(mkdtemp(path));
  KJ_DEFER(removeTree(home));
  KJ_SYSCALL(chown(home.cStr(), 4711, 4712));
  setenv("SUDO_UID", "4711", 1);
  setenv("SUDO_GID", "4712", 1);
  KJ_DEFER(for (auto name : {"SUDO_UID", "SUDO_GID"}) unsetenv(name));
  cluster::StateDirectory state(kj::str(home, "/.talos/clusters"), "a");
  state.make();
  Talosconfig().save(kj::str(home, "/.talos/config"));
  struct Made {
    kj::StringPtr name;
    uid_t user;
  };
  for (auto& made :
       {Made{"", 4711}, Made{"/clusters", 4711}, Made{"/config", 4711}, Made{"/clusters/a", 0}}) {
    struct stat found;
    KJ_SYSCALL(stat(kj::str(home, "/.talos", made.name).cStr(), &found));
    EXPECT_EQ(found.st_uid, made.user) << made.name.cStr();
    EXPECT_EQ(found.st_mode & 077, 0u) << made.name.cStr();
  }
}

// Catches: a console that is followed forever after its cluster has been removed.
TEST(ClusterCommand, AFollowedConsoleEndsWithItsCluster) {
  char path[] = "/tmp/talosctl-cluster-XXXXXX";
  kj::String folder = kj::str(mkdtemp(path));
  KJ_DEFER(removeTree(folder));
  makeDirectories(kj::str(folder, "/a"), 0700);
  cluster::StateDirectory state(folder, "a");
  capnp::MallocMessageBuilder message;
  message.initRoot<rpc::LocalCluster>().initNodes(1)[0].setName("n");
  state.save(message.getRoot<rpc::LocalCluster>());
  writeFileAtomically(state.file("n.log"), "one\n"_kj, 0600);
  ConsoleFixture test;
  auto root = newRoot();
  addClusterCommands(*root);
  kj::StringPtr arguments[] = {"cluster", "console", "-f", "--state", folder, "a", "n"};
  auto following = run(test.deps, *root, arguments, kj::NEVER_DONE);
  EXPECT_FALSE(following.poll(test.io.waitScope));
  EXPECT_STREQ(test.console.takeOut().cStr(), "one\n");
  std::ofstream(state.file("n.log").cStr(), std::ios::app) << "two\n";
  removeTree(state.path());
  auto ended = test.deps.timer.timeoutAfter(10 * kj::SECONDS, kj::mv(following));
  EXPECT_EQ(ended.wait(test.io.waitScope), 0);
  EXPECT_STREQ(test.console.takeOut().cStr(), "two\n");
}

// Catches: another cluster shown than the context's; clusters that only a look into the folder
// finds.
TEST(ClusterCommand, TheContextsClusterIsShownAndAllAreListed) {
  char path[] = "/tmp/talosctl-cluster-XXXXXX";
  kj::String home = kj::str(mkdtemp(path));
  KJ_DEFER(removeTree(home));
  Talosconfig users;
  for (kj::StringPtr name : {"a"_kj, "b"_kj, "talos-default"_kj}) {
    cluster::StateDirectory state(kj::str(home, "/.talos/clusters"), name);
    state.make();
    capnp::MallocMessageBuilder message;
    auto made = message.initRoot<rpc::LocalCluster>();
    made.setName(name);
    made.initNodes(1)[0].setName(kj::str(name, "-master-1"));
    state.save(made);
    auto contextOf = [&] {
      Context context;
      context.ca = kj::str("CA of ", name);
      return context;
    };
    Talosconfig own;
    own.add(name, contextOf());
    own.save(state.file("talosconfig"));
    if (name != "talos-default") users.add(name, contextOf());
  }
  users.select("b");
  users.save(kj::str(home, "/.talos/config"));
  ConsoleFixture test;
  test.environment.insert(kj::str("HOME"), kj::str(home));
  auto root = newRoot();
  addClusterCommands(*root);
  auto out = [&](std::initializer_list<kj::StringPtr> words) {
    auto all = kj::heapArray<kj::StringPtr>(words);
    EXPECT_EQ(run(test.deps, *root, all, kj::NEVER_DONE).wait(test.io.waitScope), 0)
        << test.console.takeErr().cStr();
    return std::string(test.console.takeOut().cStr());
  };
  EXPECT_THAT(out({"cluster", "show"}), HasSubstr("b-master-1"));
  EXPECT_THAT(test.console.takeErr().cStr(), HasSubstr("`talosctl cluster start --name b`"));
  EXPECT_THAT(out({"cluster", "show", "--context", "a"}), HasSubstr("a-master-1"));
  EXPECT_THAT(out({"cluster", "show", "--name", "a"}), HasSubstr("a-master-1"));
  auto list = out({"cluster", "list"});
  EXPECT_THAT(list, HasSubstr("\n          a "));
  EXPECT_THAT(list, HasSubstr("\n*         b "));
  EXPECT_THAT(out({"cluster", "list", "-o", "json"}), HasSubstr("{\"name\": \"talos-default\", "));
  KJ_SYSCALL(unlink(kj::str(home, "/.talos/config").cStr()));
  EXPECT_THAT(out({"cluster", "show"}), HasSubstr("talos-default-master-1"));
  // Catches: a configuration without a valid context, with which no cluster is found any more.
  for (kj::StringPtr text : {"context: gone\ncontexts: {a: {}}\n"_kj, "contexts: {a: {}}\n"_kj}) {
    writeFileAtomically(kj::str(home, "/.talos/config"), text, 0600);
    EXPECT_THAT(out({"cluster", "show"}), HasSubstr("talos-default-master-1"));
    EXPECT_THAT(out({"cluster", "list"}), HasSubstr("\n          b "));
  }
  KJ_SYSCALL(unlink(kj::str(home, "/.talos/config").cStr()));
  writeFileAtomically(kj::str(home, "/.talos/clusters/a/state.yaml"), "x: 1\n"_kj, 0600);
  EXPECT_THAT(out({"cluster", "list"}), HasSubstr("unreadable"));
  EXPECT_THAT(test.console.takeErr().cStr(), HasSubstr("cannot read the cluster a: "));
}

// Catches: a hint that names another cluster, or that a shell parses as other words.
TEST(ClusterCommand, HintsNameTheClusterThatWasAskedFor) {
  ConsoleFixture test;
  test.environment.insert(kj::str("HOME"), kj::str("/nonexistent"));
  auto root = newRoot();
  addClusterCommands(*root);
  auto hint = [&](std::initializer_list<kj::StringPtr> words) {
    kj::Vector<kj::StringPtr> all;
    for (auto word : words) all.add(word);
    EXPECT_EQ(run(test.deps, *root, all, kj::NEVER_DONE).wait(test.io.waitScope), 1);
    return std::string(test.console.takeErr().cStr());
  };
  EXPECT_THAT(hint({"cluster", "show"}), HasSubstr("`talosctl cluster create`"));
  EXPECT_THAT(hint({"cluster", "show", "--name", "a"}),
              HasSubstr("`talosctl cluster create --name a`"));
  EXPECT_THAT(hint({"cluster", "start", "--name", "a", "--state", "/nonexistent/it's"}),
              HasSubstr("`talosctl cluster create --name a --state '/nonexistent/it'\\''s'`"));
  EXPECT_THAT(hint({"cluster", "node", "kill", "b", "b-master-1"}),
              HasSubstr("`talosctl cluster create --name b`"));
}

}  // namespace
}  // namespace talos::talosctl
