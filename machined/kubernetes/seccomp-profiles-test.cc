// Pods and seccomp profiles of the machine config, from its text to the files of the kubelet.
#include "machined/kubernetes/seccomp-profiles.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/folder.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/kubernetes/control-plane-pods.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

// Returns a config with these keys of `machine`, whose lines begin with two blanks.
kj::String configWith(kj::StringPtr keys) {
  return kj::str("machine:\n  type: worker\n  token: abcdef.0123456789abcdef\n", keys,
                 "cluster:\n  controlPlane: {endpoint: 'https://10.5.0.2:6443'}\n");
}

// Returns an item of machine.seccompProfiles.
kj::String profileNamed(kj::StringPtr name) {
  return kj::str(
      "    - name: ", name,
      ".json\n"
      "      value:\n"
      "        defaultAction: SCMP_ACT_ALLOW\n"
      "        syscalls: [{names: [mkdir, mkdirat], action: SCMP_ACT_ERRNO, errnoRet: 0x1}]\n");
}

struct SeccompProfiles : public ConfigTest {
  char base[32] = "/tmp/seccomp-XXXXXX";
  kj::String folder;

  SeccompProfiles() {
    KJ_ASSERT(mkdtemp(base) != nullptr);
    folder = kj::str(base, "/seccomp/profiles");
    runtime.add(kj::heap<SeccompProfilesController>(SeccompProfilesController::Dependencies{
        .blocking = [](kj::Function<void()> work) { return kj::evalLater(kj::mv(work)); },
        .readConfig = KJ_BIND_METHOD(config, tryConfig),
        .folder = folder}));
    runtime.add(kj::heap<StaticPodController>(KJ_BIND_METHOD(config, tryConfig)));
  }
  ~SeccompProfiles() noexcept override { removeTree(base); }

  void have(kj::StringPtr keys) {
    publish(configWith(keys));
    poll();
  }
  void startKubelet() {
    putRecord<rpc::ServiceSpec>(store, "kubelet", [](auto spec) { spec.setRunning(true); });
    poll();
  }
  std::string there() { return kj::strArray(namesIn(folder), " ").cStr(); }
  std::string pods() {
    std::string ids;
    for (auto pod : store.list<rpc::StaticPodSpec>()) {
      ids += (ids.empty() ? "" : " ") + std::string(kj::str(pod.id()).cStr());
    }
    return ids;
  }
};

// Catches: a file that is written below /var before its disk is mounted; a profile that containerd
// cannot read, because it is not JSON; one that stays when the config has it no longer; a file that
// another user can read.
TEST_F(SeccompProfiles, FollowTheConfig) {
  auto one = profileNamed("one"), two = profileNamed("two");
  have(kj::str("  seccompProfiles:\n", one, two));
  EXPECT_EQ("", there()) << "/var may not be mounted";
  startKubelet();
  EXPECT_EQ("one.json two.json", there());
  auto path = kj::str(folder, "/one.json");
  EXPECT_EQ(
      "{\n  \"defaultAction\": \"SCMP_ACT_ALLOW\",\n  \"syscalls\": [\n    {\n"
      "      \"names\": [\n        \"mkdir\",\n        \"mkdirat\"\n      ],\n"
      "      \"action\": \"SCMP_ACT_ERRNO\",\n      \"errnoRet\": 1\n    }\n  ]\n}\n"_kj,
      readFile(path));
  struct stat found;
  ASSERT_EQ(0, stat(path.cStr(), &found));
  EXPECT_EQ(0600u, found.st_mode & 07777);
  writeFileAtomically(path, "{}"_kj, 0600);
  have(kj::str("  seccompProfiles:\n", one));
  EXPECT_EQ("one.json", there());
  EXPECT_THAT(readFile(path).cStr(), HasSubstr("SCMP_ACT_ERRNO"));
  have("");
  EXPECT_EQ("", there());
}

// Catches: a profile that is written out of its folder, or that containerd refuses, from a config
// that an earlier release has stored.
TEST_F(SeccompProfiles, WhatIsWrongIsLeftOut) {
  startKubelet();
  have(
      "  seccompProfiles:\n"
      "    - {name: ../x, value: {defaultAction: SCMP_ACT_ALLOW}}\n"
      "    - {name: a, value: {defaultAction: allow}}\n"
      "    - {name: b, value: {defaultAction: SCMP_ACT_LOG}}\n"
      "    - {name: b, value: {defaultAction: SCMP_ACT_ALLOW}}\n");
  EXPECT_EQ("b", there());
  EXPECT_THAT(readFile(kj::str(folder, "/b")).cStr(), HasSubstr("SCMP_ACT_LOG"));
}

// Catches: profiles of a user, from a DaemonSet, that are removed.
TEST_F(SeccompProfiles, FilesOfOthersStay) {
  makeDirectories(folder, 0700);
  writeFileAtomically(kj::str(folder, "/user.json"), "{}"_kj, 0600);
  startKubelet();
  have("");
  EXPECT_EQ("user.json", there());
  EXPECT_TRUE(tryReadFile(kj::str(folder, ".written")) == nullptr) << "there is nothing to note";
  have(kj::str("  seccompProfiles:\n", profileNamed("one")));
  EXPECT_EQ("one.json user.json", there());
  EXPECT_EQ("one.json\n"_kj, readFile(kj::str(folder, ".written")));
  have("");
  EXPECT_EQ("user.json", there());
}

// Catches: a file of machine.files that is removed because the config had a profile of this name; a
// note that is still true for it when machine.files has it no longer.
TEST_F(SeccompProfiles, AFileOfMachineFilesStays) {
  startKubelet();
  have(kj::str("  seccompProfiles:\n", profileNamed("one"), profileNamed("two")));
  have(kj::str("  files: [{op: create, path: ", folder,
               "/one.json, permissions: 0o644, content: x}]\n"));
  EXPECT_EQ("one.json", there());
  have("");
  EXPECT_EQ("one.json", there());
}

// Catches: a profile that stays after a crash between the note and the end of a write; a damaged
// note by which a file out of the folder is removed.
TEST_F(SeccompProfiles, WhatTheNoteNamesIsRemoved) {
  makeDirectories(folder, 0700);
  for (auto name : {"a", "b.unfinished-Xy3456", "c.unfinished-Xy3456"}) {
    writeFileAtomically(kj::str(folder, "/", name), "{}"_kj, 0600);
  }
  writeFileAtomically(kj::str(base, "/kept"), "{}"_kj, 0600);
  writeFileAtomically(kj::str(folder, ".written"), "a\nb\n../../kept\n..\n"_kj, 0600);
  startKubelet();
  have("");
  EXPECT_EQ("c.unfinished-Xy3456", there());
  EXPECT_TRUE(tryReadFile(kj::str(base, "/kept")) != nullptr);
}

constexpr kj::StringPtr kPods =
    "  pods:\n"
    "    - apiVersion: v1  # the first\n"
    "      kind: Pod\n"
    "      metadata: {name: web}\n"
    "      spec: {containers: [{name: a, image: b}]}\n"
    "    - apiVersion: v1\n"
    "      kind: Pod\n"
    "      metadata: {name: log, namespace: kube-system}\n"
    "      spec: {containers: [{name: a, image: b}]}\n"_kj;

// Catches: a pod with another id than Talos gives it; a text that is not the user's; a pod that
// stays when the config has it no longer.
TEST_F(SeccompProfiles, PodsFollowTheConfig) {
  have(kPods);
  EXPECT_EQ("default-web kube-system-log", pods());
  EXPECT_STREQ(
      "apiVersion: v1  # the first\nkind: Pod\nmetadata: {name: web}\n"
      "spec: {containers: [{name: a, image: b}]}\n",
      KJ_ASSERT_NONNULL(store.tryGet<rpc::StaticPodSpec>("default-web")).getPod().cStr());
  have("");
  EXPECT_EQ("", pods());
}

// Catches: pods that end because the brain was restarted and does not know the config yet.
TEST_F(SeccompProfiles, PodsStayWhileTheConfigIsUnknown) {
  have(kPods);
  config = MachineConfigReader();
  putRecord<rpc::SecretStatusSpec>(store, "other", [](auto) {});
  poll();
  EXPECT_EQ("default-web kube-system-log", pods());
}

// Catches: a wrong pod that is written; two pods of one id that replace each other; a pod of the
// control plane that a user replaces.
TEST_F(SeccompProfiles, WrongPodsAreLeftOut) {
  have(
      "  pods:\n"
      "    - {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}\n"
      "    - {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: d}]}}\n"
      "    - {apiVersion: v1, kind: Pod, metadata: {name: ../b}, spec: {containers: [{}]}}\n"
      "    - {apiVersion: apps/v1, kind: Pod, metadata: {name: c}, spec: {containers: [{}]}}\n"
      "    - {apiVersion: v1, kind: Pod, metadata: {name: apiserver, namespace: kube},\n"
      "       spec: {containers: [{name: c}]}}\n");
  EXPECT_EQ("default-a", pods());
  EXPECT_THAT(KJ_ASSERT_NONNULL(store.tryGet<rpc::StaticPodSpec>("default-a")).getPod().cStr(),
              HasSubstr("name: c"));
}

}  // namespace
}  // namespace talos::machined
