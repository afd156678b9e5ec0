#include "machined/kubernetes/static-pod-files.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/folder.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/kubernetes/control-plane-pods.h"

namespace talos::machined {
namespace {

kj::Vector<StaticPodFile> files(std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> of) {
  kj::Vector<StaticPodFile> result;
  for (auto& [name, content] : of) result.add(StaticPodFile{kj::str(name), kj::str(content)});
  return result;
}

// Returns "-removed +written", and the reason if nothing is written.
std::string planned(StaticPodGates gates, kj::Vector<StaticPodFile> wanted,
                    kj::Vector<StaticPodFile> there) {
  auto plan = planStaticPods(gates, wanted, there);
  std::string text;
  for (auto& name : plan.remove) text += kj::str("-", name, " ").cStr();
  for (auto file : plan.write) text += kj::str("+", file->name, " ").cStr();
  if (plan.skipped != nullptr) text += "skipped";
  return text;
}

TEST(StaticPodPlan, NothingIsWrittenBeforeItCanRun) {
  auto wanted = [] { return files({{"talos-a.yaml", "1"}}); };
  EXPECT_EQ("+talos-a.yaml ", planned({true, true, false}, wanted(), {}));
  EXPECT_EQ("", planned({true, false, false}, wanted(), {}));
  EXPECT_EQ("", planned({true, true, nullptr}, wanted(), {}));
  // Catches: pods from before the reboot that crash because their secrets do not exist yet.
  EXPECT_EQ("-talos-a.yaml ",
            planned({false, false, nullptr}, wanted(), files({{"talos-a.yaml", "1"}})));
  EXPECT_EQ("-talos-a.yaml skipped",
            planned({true, true, true}, wanted(), files({{"talos-a.yaml", "1"}})));
}

TEST(StaticPodPlan, OnlyDifferencesAreWritten) {
  auto wanted = [] { return files({{"talos-a.yaml", "1"}, {"talos-b.yaml", "2"}}); };
  auto there = [] { return files({{"talos-a.yaml", "1"}, {"talos-b.yaml", "1"}}); };
  EXPECT_EQ("+talos-b.yaml ", planned({true, true, false}, wanted(), there()));
  // Without the kubelet, or before etcd's state is known, the existing files stay.
  EXPECT_EQ("", planned({true, false, nullptr}, wanted(), there()));
  EXPECT_EQ("-talos-b.yaml ",
            planned({true, true, false}, files({{"talos-a.yaml", "1"}}), there()));
}

// Catches: a pod of the user that waits for the control plane, as on a worker, or that is removed
// with it; one that is written into a folder whose disk is not mounted yet.
TEST(StaticPodPlan, PodsOfTheConfigNeedOnlyTheKubelet) {
  auto wanted = [] {
    auto list = files({{"talos-a.yaml", "1"}, {"talos-default-b.yaml", "2"}});
    list[1].controlPlane = false;
    return list;
  };
  EXPECT_EQ("+talos-default-b.yaml ", planned({false, true, nullptr}, wanted(), {}));
  EXPECT_EQ("", planned({false, false, nullptr}, wanted(), {}));
  auto there = [] { return files({{"talos-a.yaml", "1"}, {"talos-default-b.yaml", "2"}}); };
  EXPECT_EQ("-talos-a.yaml ", planned({false, true, nullptr}, wanted(), there()));
  EXPECT_EQ("-talos-default-b.yaml ",
            planned({true, true, false}, files({{"talos-a.yaml", "1"}}), there()));
}

struct StaticPodFiles : public ConfigTest {
  char base[32] = "/tmp/static-pods-XXXXXX";
  kj::String folder, systemFolder;
  kj::Vector<kj::String> reported;

  StaticPodFiles() {
    KJ_ASSERT(mkdtemp(base) != nullptr);
    folder = kj::str(base, "/manifests");
    systemFolder = kj::str(base, "/system");
    runtime.add(kj::heap<StaticPodFilesController>(StaticPodFilesController::Dependencies{
        .blocking = [](kj::Function<void()> work) { return kj::evalLater(kj::mv(work)); },
        .report = [this](
                      kj::StringPtr controller,
                      kj::StringPtr message) { reported.add(kj::str(controller, ": ", message)); },
        .folder = folder,
        .systemFolder = systemFolder}));
  }
  ~StaticPodFiles() noexcept override { removeTree(base); }

  void putPod(kj::StringPtr id, kj::StringPtr text) {
    putRecord<rpc::StaticPodSpec>(store, id, [&](auto spec) { spec.setPod(text); });
  }
  void openGates() {
    putRecord<rpc::SecretStatusSpec>(store, kStaticPodsId, [](auto spec) { spec.setReady(true); });
    putRecord<rpc::ServiceSpec>(store, "kubelet", [](auto spec) { spec.setRunning(true); });
    putRecord<rpc::BootstrapStatusSpec>(store, "control-plane", [](auto) {});
  }
  std::string there() { return kj::strArray(namesIn(folder), " ").cStr(); }
};

// Catches: a control plane that ends because the kubelet reads another folder; a pod that is in
// both; a file of the user that is removed.
TEST_F(StaticPodFiles, MoveToTheFolderThatTheKubeletReads) {
  putPod("kube-apiserver", "kind: Pod\n");
  putPod("default-mine", "kind: Pod\n");
  openGates();
  poll();
  EXPECT_EQ("talos-default-mine.yaml talos-kube-apiserver.yaml", there());
  writeFileAtomically(kj::str(folder, "/users.yaml"), "kind: Pod\n"_kj, 0644);
  auto read = [&](kj::StringPtr path) {
    putRecord<rpc::KubeletSpecSpec>(store, "kubelet",
                                    [&](auto spec) { spec.setStaticPodPath(path); });
    poll();
  };
  read(kSystemManifestsFolder);
  EXPECT_EQ("users.yaml", there());
  EXPECT_EQ("talos-default-mine.yaml talos-kube-apiserver.yaml",
            std::string(kj::strArray(namesIn(systemFolder), " ").cStr()));
  read(kManifestsFolder);
  EXPECT_EQ("talos-default-mine.yaml talos-kube-apiserver.yaml users.yaml", there());
  EXPECT_EQ("", std::string(kj::strArray(namesIn(systemFolder), " ").cStr()));
}

TEST_F(StaticPodFiles, FollowThePods) {
  putPod("kube-apiserver", "kind: Pod\n");
  poll();
  EXPECT_EQ("", there());
  openGates();
  poll();
  EXPECT_EQ("talos-kube-apiserver.yaml", there());
  auto path = kj::str(folder, "/talos-kube-apiserver.yaml");
  EXPECT_EQ(kj::str("kind: Pod\n"), readFile(path));
  struct stat found;
  ASSERT_EQ(0, stat(path.cStr(), &found));
  EXPECT_EQ(0600u, found.st_mode & 07777);
  ASSERT_EQ(1u, reported.size());
  EXPECT_EQ(kj::str("k8s.KubeletStaticPodController: writing static pod \"", path, "\""),
            reported[0]);
  // Catches: a temporary file that the kubelet takes for a pod; a user's file that is removed.
  auto users = kj::str(folder, "/mine.yaml");
  writeFileAtomically(users, "kind: Pod\n"_kj, 0644);
  putPod("kube-apiserver", "kind: Pod # another\n");
  poll();
  EXPECT_EQ("mine.yaml talos-kube-apiserver.yaml", there());
  EXPECT_EQ(kj::str("kind: Pod # another\n"), readFile(path));
  EXPECT_EQ(kj::str(base, "/manifests"), folder);
  EXPECT_EQ("manifests", std::string(kj::strArray(namesIn(base), " ").cStr()));
  destroyRecord<rpc::StaticPodSpec>(store, "kube-apiserver");
  poll();
  EXPECT_EQ("mine.yaml", there());
  EXPECT_EQ(kj::str("k8s.KubeletStaticPodController: removed static pod \"", path, "\""),
            reported.back());
}

// Catches: a definition that is gone while its pod still runs; a definition that waits for ever; a
// finalizer of a pod that has never run, or runs on a node of another name.
TEST_F(StaticPodFiles, ADefinitionStaysAsLongAsItsPodHasAStatus) {
  constexpr auto kPod = "kube-apiserver"_kj, kOwn = "kube-system/kube-apiserver-m1"_kj;
  auto held = [&]() -> std::string {
    KJ_IF_MAYBE (pod, store.tryGet<rpc::StaticPodSpec>(kPod)) {
      return kj::strArray(pod->metadata().getFinalizers(), " ").cStr();
    }
    return "no definition";
  };
  auto status = [&](kj::StringPtr id) {
    putRecord<rpc::StaticPodStatusSpec>(store, id, [](auto spec) { spec.setStatus("{}"); });
  };
  putRecord<rpc::NodenameSpec>(store, "nodename", [](auto spec) { spec.setNodename("m1"); });
  openGates();
  putPod(kPod, "kind: Pod\n");
  status("kube-system/kube-apiserver-m2");
  poll();
  EXPECT_EQ(held(), "");
  status(kOwn);
  poll();
  EXPECT_EQ(held(), "k8s.StaticPodStatus(\"kube-apiserver\")");

  EXPECT_FALSE(store.teardown("", typeName<rpc::StaticPodSpec>(), kPod, kBrainOwner));
  poll();
  EXPECT_EQ(there(), "") << "or the pod never ends";
  EXPECT_EQ(held(), "k8s.StaticPodStatus(\"kube-apiserver\")");
  destroyRecord<rpc::StaticPodStatusSpec>(store, kOwn);
  poll();
  EXPECT_EQ(held(), "");
  destroyRecord<rpc::StaticPodSpec>(store, kPod);
  EXPECT_EQ(held(), "no definition");
}

}  // namespace
}  // namespace talos::machined
