#include "talosctl/kube/kubeconfig-file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/kube/json-yaml.h"
#include "common/kube/kubeconfig.h"
#include "common/testing/test-tree.h"

namespace talos::talosctl {
namespace {

class KubeconfigFile : public testing::Test {
 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  machined::TestTree tree;
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  unsigned asked = 0;
  kj::Function<void()> whileAsked = []() {};

  ~KubeconfigFile() noexcept override {
    for (auto name : {"SUDO_UID", "SUDO_GID"}) unsetenv(name);
  }
  // Creates a folder of the user who runs sudo.
  void makeHome() {
    makeDirectories(path("home"));
    KJ_SYSCALL(chmod(tree.root.cStr(), 0755));
    KJ_SYSCALL(chown(path("home").cStr(), 4711, 4712));
    setenv("SUDO_UID", "4711", 1);
    setenv("SUDO_GID", "4712", 1);
  }

  static kube::ReceivedKubeconfig of(kj::StringPtr cluster, kj::StringPtr key = "KEY") {
    return {.cluster = kj::str(cluster),
            .user = kj::str("admin@", cluster),
            .context = kj::str("admin@", cluster),
            .nameSpace = {},
            .server = kj::str("https://10.5.0.1:6443"),
            .tlsName = {},
            .authority = kj::str("CA"),
            .certificate = kj::str("C"),
            .key = pki::Pem(kj::str(key))};
  }
  static kj::String textOf(kj::StringPtr cluster) {
    return kj::str(kj::StringPtr(of(cluster).text()));
  }
  kj::String path(kj::StringPtr name) { return tree.at(name); }
  kj::Promise<StoredKubeconfig> storing(kj::StringPtr name, kube::ReceivedKubeconfig received,
                                        bool merge, bool force = false,
                                        kj::StringPtr context = "") {
    return storeKubeconfig(timer, {path(name), merge, force, kj::str(context)}, kj::mv(received),
                           [&](auto&, auto) -> kj::Promise<kube::MergeChoice> {
                             ++asked;
                             whileAsked();
                             return kube::MergeChoice::kRename;
                           });
  }
  kj::String store(kj::StringPtr name, kube::ReceivedKubeconfig received, bool merge,
                   bool force = false, kj::StringPtr context = "") {
    auto stored = storing(name, kj::mv(received), merge, force, context).wait(scope);
    return kj::strArray(stored.renames, "; ");
  }
  mode_t mode(kj::StringPtr name) {
    struct stat found;
    KJ_SYSCALL(stat(path(name).cStr(), &found));
    return found.st_mode & 07777;
  }
};

TEST_F(KubeconfigFile, WhereItGoes) {
  auto home = kj::str(tree.root);
  EXPECT_EQ(kubeconfigPath("", true, home.asPtr()), kj::str(home, "/.kube/config"));
  EXPECT_EQ(kubeconfigPath("", false, home.asPtr()), "./kubeconfig"_kj);
  EXPECT_EQ(kubeconfigPath(home, true, nullptr), kj::str(home, "/kubeconfig"));
  EXPECT_EQ(kubeconfigPath("/a/b", true, nullptr), "/a/b"_kj);
  // Catches: a kubeconfig that is merged into a file that kubectl does not read.
  EXPECT_EQ(kubeconfigPath("", true, home.asPtr(), "/a/b:/c"), "/a/b"_kj);
  EXPECT_EQ(kubeconfigPath("", true, nullptr, "::/c"), "/c"_kj);
  EXPECT_EQ(kubeconfigPath("", true, home.asPtr(), ":"), kj::str(home, "/.kube/config"));
  EXPECT_EQ(kubeconfigPath("", false, nullptr, "/a/b"), "./kubeconfig"_kj);
  EXPECT_EQ(kubeconfigPath("/d", true, nullptr, "/a/b"), "/d"_kj);
  auto failed = kj::runCatchingExceptions([&]() { kubeconfigPath("", true, nullptr); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failed)),
            "HOME is not set; name the file of the kubeconfig"_kj);
}

TEST_F(KubeconfigFile, ANewFileIsWhatTheNodeSent) {
  EXPECT_EQ(store("a/b/config", of("c1"), true), ""_kj);
  EXPECT_EQ(readFile(path("a/b/config")), textOf("c1"));
  EXPECT_EQ(mode("a/b/config"), 0600u);
}

// Catches: a name that is used only if the file exists.
TEST_F(KubeconfigFile, ANewFileCanHaveAnotherContextName) {
  store("config", of("c1"), true, false, "work");
  auto written = kube::readYaml(readFile(path("config")), "config");
  EXPECT_EQ(kube::textAt(written[0], {"current-context"}), "work"_kj);
  EXPECT_EQ(kube::itemsAt(written[0], {"contexts"}).size(), 1u);
}

// Catches: a user's file that is lost.
TEST_F(KubeconfigFile, AFileThatIsThereIsMergedOrLeft) {
  store("config", of("c1"), false);
  KJ_SYSCALL(chmod(path("config").cStr(), 0600));
  auto failed = kj::runCatchingExceptions([&]() { store("config", of("c2"), false); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failed)),
            kj::str("kubeconfig file already exists, use --force to overwrite: \"", path("config"),
                    "\"; or use --merge"));
  EXPECT_EQ(readFile(path("config")), textOf("c1"));

  EXPECT_EQ(store("config", of("c2"), true), ""_kj);
  auto merged = kube::readYaml(readFile(path("config")), "config");
  EXPECT_EQ(kube::itemsAt(merged[0], {"clusters"}).size(), 2u);
  EXPECT_EQ(mode("config"), 0600u);
  EXPECT_EQ(asked, 0u);
  EXPECT_EQ(store("config", of("c2", "OTHER"), true),
            "renamed auth info \"admin@c2\" -> \"admin@c2-1\"; "
            "renamed context \"admin@c2\" -> \"admin@c2-1\""_kj);
  EXPECT_EQ(asked, 1u);

  store("config", of("c3"), false, true);
  EXPECT_EQ(readFile(path("config")), textOf("c3"));
}

// Catches: `sudo` that makes root the owner of a user's file.
TEST_F(KubeconfigFile, TheOwnerStays) {
  ASSERT_EQ(geteuid(), 0u) << "needs root";
  makeHome();
  store("config", of("c1"), true);
  KJ_SYSCALL(rename(path("config").cStr(), path("home/config").cStr()));
  KJ_SYSCALL(chown(path("home/config").cStr(), 4711, 4712));
  store("home/config", of("c2"), true);
  struct stat found;
  KJ_SYSCALL(stat(path("home/config").cStr(), &found));
  EXPECT_EQ(found.st_uid, 4711u);
  EXPECT_EQ(found.st_gid, 4712u);
}

// Catches: a new file, and new folders, in a user's home that root owns.
TEST_F(KubeconfigFile, WhatIsNewBelongsToTheUserOfSudo) {
  ASSERT_EQ(geteuid(), 0u) << "needs root";
  makeHome();
  store("home/.kube/config", of("c1"), true);
  for (auto name : {"home/.kube", "home/.kube/config"}) {
    struct stat found;
    KJ_SYSCALL(stat(path(name).cStr(), &found));
    EXPECT_EQ(found.st_uid, 4711u) << name;
    EXPECT_EQ(found.st_gid, 4712u) << name;
  }
}

// Catches: a key in a file that others may read.
TEST_F(KubeconfigFile, OthersDoNotReadIt) {
  for (mode_t before : {0644, 0666, 0400, 0600}) {
    writeFileAtomically(path("config"), textOf("c1"), before);
    store("config", of("c2"), true);
    EXPECT_EQ(mode("config"), before & 0600u);
  }
}

// Catches: a lost entry that kubectl writes at the same time.
TEST_F(KubeconfigFile, KubectlsLockIsRespected) {
  store("config", of("c1"), true);
  writeFileAtomically(path("config.lock"), ""_kj, 0600);
  auto refused = storing("config", of("c2"), true);
  EXPECT_FALSE(refused.poll(scope));
  timer.advanceTo(timer.now() + 1 * kj::SECONDS);
  EXPECT_FALSE(refused.poll(scope));
  timer.advanceTo(timer.now() + 1 * kj::SECONDS);
  auto failed = kj::runCatchingExceptions([&]() { refused.wait(scope); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failed)),
            kj::str(path("config.lock"), " exists, so another program is changing ", path("config"),
                    "; retry, or remove the lock if none is"));
  EXPECT_EQ(readFile(path("config")), textOf("c1"));

  auto waiting = storing("config", of("c2"), true);
  EXPECT_FALSE(waiting.poll(scope));
  unlink(path("config.lock").cStr());
  timer.advanceTo(timer.now() + 1 * kj::SECONDS);
  waiting.wait(scope);
  auto merged = kube::readYaml(readFile(path("config")), "config");
  EXPECT_EQ(kube::itemsAt(merged[0], {"clusters"}).size(), 2u);
  EXPECT_EQ(tryReadFile(path("config.lock")), nullptr);
}

// Catches: a kubectl that cannot write while the user thinks about an answer, and a lost entry that
// kubectl wrote meanwhile.
TEST_F(KubeconfigFile, NobodyIsLockedOutWhileSomebodyIsAsked) {
  store("config", of("c1"), true);
  store("of-kubectl", of("c1"), true);
  store("of-kubectl", of("c3"), true);
  whileAsked = [&]() {
    EXPECT_EQ(tryReadFile(path("config.lock")), nullptr);
    writeFileAtomically(path("config"), readFile(path("of-kubectl")), 0600);
  };
  auto waiting = storing("config", of("c1", "OTHER"), true).then([](auto stored) {
    return kj::strArray(stored.renames, "; ");
  });
  EXPECT_EQ(waiting.wait(scope),
            "renamed auth info \"admin@c1\" -> \"admin@c1-1\"; "
            "renamed context \"admin@c1\" -> \"admin@c1-1\""_kj);
  EXPECT_EQ(asked, 1u);
  auto merged = kube::readYaml(readFile(path("config")), "config");
  EXPECT_EQ(kube::itemsAt(merged[0], {"clusters"}).size(), 2u);
  EXPECT_EQ(kube::itemsAt(merged[0], {"users"}).size(), 3u);
}

TEST_F(KubeconfigFile, ALinkStaysALink) {
  store("real", of("c1"), true);
  tree.link("config", path("real"));
  store("config", of("c2"), true);
  struct stat found;
  KJ_SYSCALL(lstat(path("config").cStr(), &found));
  EXPECT_TRUE(S_ISLNK(found.st_mode));
  auto merged = kube::readYaml(readFile(path("real")), "real");
  EXPECT_EQ(kube::itemsAt(merged[0], {"clusters"}).size(), 2u);
}

TEST_F(KubeconfigFile, WhatIsNoKubeconfigIsNotTouched) {
  writeFileAtomically(path("config"), "- a\n"_kj, 0600);
  auto failed = kj::runCatchingExceptions([&]() { store("config", of("c1"), true); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failed)), "the existing file is not a kubeconfig"_kj);
  EXPECT_EQ(readFile(path("config")), "- a\n"_kj);
}

}  // namespace
}  // namespace talos::talosctl
