#include "machined/brain/config-effects.h"

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/testing/virtual-time.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

struct ConfigEffectsTest : testing::Test {
  ~ConfigEffectsTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Registry registry;
  TestClock clock;
  Store store{registry, clock};
  ControllerRuntime controllers{store, [](kj::StringPtr) {}, timer, clock, [] { return 0.5; }};
  std::string ofKernel = "machine.sysctls.vm.a: refused", ofEtcd = "etcd does not start: why";
  std::string volumeProblem;
  bool kernelHangs = false;
  unsigned volumePasses = 0;
  std::vector<std::string> leftOut;  // of the plan of the network
  bool imagePending = false, imageRuns = false;
  ConfigEffects effects{
      {.timer = timer,
       .store = store,
       .controllers = controllers,
       .kernel = [this]() -> kj::Promise<ConfigEffects::Texts> {
         if (kernelHangs) return kj::NEVER_DONE;
         if (ofKernel.empty()) return error(ErrorKind::kUnavailable, "not booted");
         return kj::arr(kj::str(ofKernel.c_str()));
       },
       .trustedRoots = []() -> kj::Promise<ConfigEffects::Texts> {
         return error(ErrorKind::kUnavailable, "no space");
       },
       .networkProblems =
           [this] {
             kj::Vector<kj::String> problems;
             for (auto& problem : leftOut) problems.add(kj::str(problem.c_str()));
             return problems;
           },
       .volumes = [this]() -> kj::Promise<ConfigEffects::Texts> {
         ++volumePasses;
         return kj::arr(kj::str(volumeProblem.c_str()));
       },
       .volumeProblems =
           [this] {
             kj::Vector<kj::String> problems;
             if (!volumeProblem.empty()) problems.add(kj::str(volumeProblem.c_str()));
             return problems;
           },
       .impossibleVolumes =
           [](config::Machine::Reader wanted) {
             kj::Vector<kj::String> problems;
             for (auto volume : wanted.getVolumes()) problems.add(kj::str(volume.getId(), ": no"));
             return problems;
           },
       .etcd = [this](kj::Duration) -> kj::Promise<kj::Maybe<kj::String>> {
         if (ofEtcd.empty()) return kj::Maybe<kj::String>();
         return kj::Maybe<kj::String>(kj::str(ofEtcd.c_str()));
       },
       .imageActs = [this](bool applied) { return imagePending || (applied && imageRuns); }}};
  kj::Vector<config::Change> changed;
  unsigned specs = 0;
  capnp::MallocMessageBuilder wanted;

  ConfigEffects::Texts foreseen() {
    return effects.foreseen(changed, wanted.getRoot<config::Machine>());
  }

  // Publishes the member of this node, as etcd-supervisor does.
  void reportMember(kj::StringPtr url, kj::StringPtr message) {
    auto owner = "etcd-supervisor"_kj;
    putRecord<rpc::EtcdStatusSpec>(
        store, "etcd",
        [&](auto status) {
          status.setMember("8e01");
          status.setMessage(message);
        },
        owner);
    putRecord<rpc::EtcdMemberSpec>(
        store, "8e01", [&](auto member) { member.initPeerUrls(1).set(0, url); }, owner);
  }

  auto ask(std::initializer_list<kj::StringPtr> paths) {
    changed.clear();
    for (auto path : paths) changed.add(config::Change{kj::str(path), true});
    return effects.missing(changed);
  }
  std::string answer(kj::Promise<ConfigEffects::Texts> asked) {
    if (!asked.poll(scope)) return "still looking";
    return kj::strArray(asked.wait(scope), " | ").cStr();
  }
  // Stores another NodeSpec, as the controller does after a change of the config.
  void specChanges() {
    putRecord<rpc::NodeSpecSpec>(store, "node",
                                 [this](auto spec) { spec.setNodename(kj::str("w-", ++specs)); });
  }
  // Stores kubed's report. `spec`: version of the NodeSpec, 0 for none.
  void kubedReports(uint64_t spec, kj::StringPtr error,
                    std::initializer_list<kj::StringPtr> notApplied = {}) {
    putRecord<rpc::NodeStatusSpec>(
        store, "node",
        [&](auto status) {
          status.setApplied(spec > 0 && notApplied.size() == 0);
          status.setMessage(error);
          status.setSpecVersion(spec);
          auto list = status.initNotApplied(static_cast<unsigned>(notApplied.size()));
          unsigned i = 0;
          for (auto setting : notApplied) list.set(i++, setting);
        },
        "kubed");
  }
};

// Catches: "in effect" for a kernel parameter that the kernel refused; a wait without an end; a
// part that is looked at although it did not change.
TEST_F(ConfigEffectsTest, OnlyChangedKeysAreLookedAt) {
  EXPECT_EQ("", answer(ask({})));
  EXPECT_EQ("", answer(ask({"cluster.apiServer.extraArgs.v", "machine.certSANs"})));
  for (auto key : {"machine.sysctls.vm.a"_kj, "machine.sysfs.a"_kj, "machine.kernel.modules"_kj,
                   "machine.pciDrivers[0].driver"_kj, "machine.watchdog.timeout"_kj}) {
    EXPECT_EQ("machine.sysctls.vm.a: refused", answer(ask({key}))) << key.cStr();
  }
  EXPECT_EQ("TrustedRootsConfig: no space", answer(ask({"machine.trustedRoots"})));
  ofKernel = "";
  EXPECT_EQ("machine.sysfs: not booted", answer(ask({"machine.sysfs.a"})));
  kernelHangs = true;
  auto asked = ask({"machine.sysctls.vm.a", "cluster.etcd.extraArgs.a"});
  EXPECT_FALSE(asked.poll(scope));
  advance(timer, scope, 6 * kj::SECONDS);
  EXPECT_EQ(
      "machine.sysctls: the kernel has not taken them within 5s | "
      "cluster.etcd: etcd does not start: why",
      answer(kj::mv(asked)));
  ofEtcd = "";
  EXPECT_EQ("", answer(ask({"cluster.etcd.extraArgs.a"})));
}

// Catches: "in effect" for an address at which the members do not call this one; a wait for a node
// without etcd, or without an end; an answer or a status that hides the cause.
TEST_F(ConfigEffectsTest, TheAddressOfEtcdIsInEffectWhenTheMembersHaveIt) {
  constexpr auto kKey = "cluster.etcd.advertisedSubnets"_kj;
  ofEtcd = "";
  EXPECT_EQ("", answer(ask({kKey}))) << "there is no etcd";
  putRecord<rpc::EtcdConfigSpec>(store, "etcd",
                                 [](auto spec) { spec.initAddresses(1).set(0, "10.0.0.11"); });
  putRecord<rpc::EtcdSpecSpec>(store, "etcd", [](auto spec) { spec.setWaitsFor("a cluster"); });
  EXPECT_EQ("", answer(ask({kKey}))) << "it is not a member yet";
  putRecord<rpc::EtcdSpecSpec>(store, "etcd", [](auto spec) { spec.setImage("etcd"); });
  auto asked = ask({kKey});
  EXPECT_FALSE(asked.poll(scope));
  advance(timer, scope, 16 * kj::SECONDS);
  EXPECT_EQ(kj::str(kKey, ": etcd-supervisor does not know the member of this node").cStr(),
            answer(kj::mv(asked)));
  EXPECT_EQ(0, effects.leftOut().size()) << "the status has problems that are known";

  reportMember("https://10.0.0.1:2380", "n2 is not healthy");
  asked = ask({kKey});
  advance(timer, scope, 16 * kj::SECONDS);
  auto problem = kj::str(kKey,
                         ": the members of etcd call this one at https://10.0.0.1:2380, and not "
                         "yet at https://10.0.0.11:2380: n2 is not healthy");
  EXPECT_EQ(problem.cStr(), answer(kj::mv(asked)));
  EXPECT_EQ(problem, kj::strArray(effects.leftOut(), " | "));
  EXPECT_EQ("", answer(ask({"cluster.etcd.listenSubnets"}))) << "that is not about this address";

  asked = ask({kKey});
  EXPECT_FALSE(asked.poll(scope)) << "it may be about to be changed";
  reportMember("https://10.0.0.11:2380", "");
  EXPECT_EQ("", answer(kj::mv(asked)));
  EXPECT_EQ(0, effects.leftOut().size());
  ofEtcd = "it waits";
  EXPECT_EQ("cluster.etcd.advertisedSubnets: it waits",
            answer(ask({"cluster.etcd.advertisedSubnets[0]"})));
  EXPECT_EQ("cluster.etcd: it waits | cluster.etcd.advertisedSubnets: it waits",
            answer(ask({"cluster.etcd.extraArgs.a", kKey})));
}

// Catches: "not in effect" for one of several addresses that the config advertises; "in effect" for
// one where etcd does not listen; a wait that is blamed on advertisedSubnets.
TEST_F(ConfigEffectsTest, TheMembersMayCallThisOneAtAnyAddressThatIsAdvertised) {
  auto problems = [this](kj::StringPtr listens, kj::StringPtr waitsFor) {
    putRecord<rpc::EtcdConfigSpec>(store, "etcd", [&](auto spec) {
      auto addresses = spec.initAddresses(2);
      addresses.set(0, "10.0.0.11");
      addresses.set(1, "10.0.0.1");
      if (listens.size() > 0) spec.initListenAddresses(1).set(0, listens);
      spec.setWaitsFor(waitsFor);
    });
    return std::string(kj::strArray(effects.leftOut(), " | ").cStr());
  };
  putRecord<rpc::EtcdSpecSpec>(store, "etcd", [](auto spec) { spec.setImage("etcd"); });
  reportMember("https://10.0.0.1:2380", "");
  EXPECT_EQ("", problems("", ""));
  EXPECT_EQ("", problems("10.0.0.1", ""));
  EXPECT_EQ(
      "cluster.etcd.advertisedSubnets: the members of etcd call this one at "
      "https://10.0.0.1:2380, and not yet at https://10.0.0.11:2380",
      problems("10.0.0.11", ""));
  EXPECT_EQ("cluster.etcd: etcd waits for the host name", problems("", "the host name"));
}

// Catches: a link that the kernel refuses and that is "in effect".
TEST_F(ConfigEffectsTest, ALinkThatCannotBeMade) {
  putRecord<rpc::LinkSpecSpec>(store, "dummy1", [](auto) {});
  putRecord<rpc::NetworkStatusSpec>(store, "status", [](auto spec) {
    spec.initProblems(1).set(0, "link dummy1: Operation not supported");
  });
  auto asked = ask({"machine.network.interfaces"});
  EXPECT_FALSE(asked.poll(scope)) << "networkd may be about to make it";
  advance(timer, scope, 6 * kj::SECONDS);
  EXPECT_EQ("machine.network: link dummy1: Operation not supported", answer(kj::mv(asked)));
}

// Catches: a resolver that does not listen and that is "in effect".
TEST_F(ConfigEffectsTest, AResolverThatDoesNotListen) {
  putRecord<rpc::NetworkStatusSpec>(store, "status", [](auto) {});
  putRecord<rpc::HostDnsConfigSpec>(store, "config", [](auto spec) { spec.setEnabled(true); });
  auto asked = ask({"machine.features.hostDNS.enabled"});
  EXPECT_FALSE(asked.poll(scope)) << "networkd may be about to start it";
  advance(timer, scope, 6 * kj::SECONDS);
  EXPECT_EQ("machine.network: networkd has not started host DNS", answer(kj::mv(asked)));
}

// Catches: a route that machined leaves out, so that networkd never gets it, and that is "in
// effect"; a problem of a selector that is repeated.
TEST_F(ConfigEffectsTest, WhatThePlanOfTheNetworkLeavesOutIsNotInEffect) {
  leftOut = {"eth0: the route to 0.0.0.0/0 is ignored: x", "deviceSelector driver=a: no such link"};
  putRecord<rpc::NetworkStatusSpec>(store, "status", [](auto spec) {
    spec.initProblems(1).set(0, "deviceSelector driver=a: no such link");
  });
  EXPECT_EQ(
      "machine.network: eth0: the route to 0.0.0.0/0 is ignored: x | "
      "machine.network: deviceSelector driver=a: no such link",
      answer(ask({"machine.network.interfaces"})));
  EXPECT_EQ("", answer(ask({"machine.certSANs"})));
  EXPECT_STREQ("machine.network: eth0: the route to 0.0.0.0/0 is ignored: x",
               kj::strArray(effects.leftOut(), " | ").cStr())
      << "the status has the other one from networkd";
}

// Catches: a volume that waits for a disk and counts as in effect; an apply that does not let it
// use a disk that has appeared; a pass at each apply.
TEST_F(ConfigEffectsTest, VolumeThatIsNotInUseIsNamed) {
  volumeProblem = "UserVolumeConfig[data]: no disk";
  EXPECT_EQ(volumeProblem, answer(ask({"machine.volumes[0].size"})));
  EXPECT_EQ(volumeProblem, answer(ask({"machine.ephemeralSize.most"})));
  EXPECT_EQ("", answer(ask({"machine.certSANs"})));
  EXPECT_EQ(3u, volumePasses);
  EXPECT_EQ(volumeProblem, kj::strArray(effects.leftOut(), " | ").cStr());
  volumeProblem.clear();
  EXPECT_EQ("", answer(ask({"machine.certSANs"})));
  EXPECT_EQ(3u, volumePasses);
}

// Catches: a setting that the Node object does not have and that is "in effect", because kubed had
// not looked yet; a report about a key that has not changed; only one of two changed keys.
TEST_F(ConfigEffectsTest, TheNodeObjectIsComparedWithThePresentSpec) {
  specChanges();
  kubedReports(1, "");
  EXPECT_EQ("", answer(ask({"machine.nodeTaints.gpu"})));
  specChanges();
  auto asked = ask({"machine.nodeTaints.gpu"});
  advance(timer, scope, 4 * kj::SECONDS);
  EXPECT_FALSE(asked.poll(scope)) << "the report is about the spec before";
  auto taint = "machine.nodeTaints: a worker may not change its own taints"_kj;
  auto label = "machine.nodeLabels: another client has set the label zone"_kj;
  kubedReports(2, "", {taint, label});
  EXPECT_EQ(taint.cStr(), answer(kj::mv(asked)));
  EXPECT_EQ("", answer(ask({"machine.nodeAnnotations.a"}))) << "that is not about annotations";
  EXPECT_EQ(kj::str(taint, " | ", label).cStr(),
            answer(ask({"machine.nodeTaints.gpu", "machine.nodeAnnotations.a",
                        "machine.nodeLabels[\"a.b/c\"]"})));
}

// Catches: a wait without an end for a kubed that does not reach the API server, or does not run;
// an answer that hides its error.
TEST_F(ConfigEffectsTest, ANodeObjectThatKubedDoesNotReach) {
  EXPECT_EQ("", answer(ask({"machine.nodeAnnotations.a"}))) << "the node has no name yet";
  kubedReports(0, "Kubernetes at lb:6443: connection refused");
  specChanges();
  auto asked = ask({"machine.nodeAnnotations.a"});
  EXPECT_FALSE(asked.poll(scope));
  advance(timer, scope, 6 * kj::SECONDS);
  EXPECT_EQ("machine.nodeAnnotations: Kubernetes at lb:6443: connection refused",
            answer(kj::mv(asked)));
  kubedReports(1, "");
  specChanges();
  asked = ask({"machine.nodeTaints.gpu"});
  advance(timer, scope, 6 * kj::SECONDS);
  EXPECT_EQ("machine.nodeTaints: kubed has not compared the Node object with the config within 5s",
            answer(kj::mv(asked)));
}

// Catches: "in effect" for a balancer that listens at the port of before, or not at all; a wait
// without an end for a node without kubed.
TEST_F(ConfigEffectsTest, TheBalancerListensWhereTheConfigSays) {
  auto key = "machine.features.kubePrism.port"_kj;
  auto reports = [this](uint16_t port, kj::StringPtr error) {
    putRecord<rpc::KubePrismStatusSpec>(
        store, "k8s-loadbalancer",
        [&](auto status) {
          status.setPort(port);
          status.setMessage(error);
        },
        "kubed");
  };
  EXPECT_EQ("", answer(ask({key}))) << "it is off";
  putRecord<rpc::KubePrismConfigSpec>(store, "k8s-loadbalancer-config",
                                      [](auto spec) { spec.setPort(7446); });
  reports(7445, "");
  auto asked = ask({key});
  EXPECT_FALSE(asked.poll(scope)) << "the status is of the port before";
  reports(7446, "no API server is usable");
  EXPECT_EQ("", answer(kj::mv(asked)));
  reports(0, "cannot listen on 127.0.0.1:7446: in use");
  asked = ask({key});
  advance(timer, scope, 6 * kj::SECONDS);
  EXPECT_EQ("machine.features.kubePrism: cannot listen on 127.0.0.1:7446: in use",
            answer(kj::mv(asked)));
  reports(7445, "");
  asked = ask({key});
  advance(timer, scope, 6 * kj::SECONDS);
  EXPECT_EQ("machine.features.kubePrism: kubed does not listen on port 7446 yet",
            answer(kj::mv(asked)));
  EXPECT_EQ("", answer(ask({"machine.features.podMetadataAccess"})));
}

// Catches: "in effect" for a kernel argument that the boot loader has only after an upgrade; the
// key of signatures, which acts at once, taken for the image; a key that is named twice.
TEST_F(ConfigEffectsTest, KeysOfAnInstallationActWithTheNextOne) {
  EXPECT_EQ(
      "machine.install.diskSelector: acts when the system is installed on a disk | "
      "machine.install.extraKernelArgs: acts with the next installation or upgrade",
      answer(ask({"machine.install.extraKernelArgs[0]", "machine.install.extraKernelArgs[1]",
                  "machine.install.diskSelector.size"})));
  EXPECT_EQ("machine.install.wipe: acts when the system is installed on a disk",
            answer(ask({"machine.install.wipe"})));
  EXPECT_EQ("", answer(ask({"machine.install.imageKey"})));
  // The last change is known before it is applied, for a dry run.
  changed.clear();
  changed.add(config::Change{kj::str("machine.install.wipe"), true});
  EXPECT_EQ("machine.install.wipe: acts when the system is installed on a disk",
            kj::strArray(foreseen(), " | "));
}

// Catches: a dry run that shows as "in effect" what the node then denies.
TEST_F(ConfigEffectsTest, VolumesThatTheNodeNeverMakesAreForeseen) {
  wanted.getRoot<config::Machine>().initVolumes(1)[0].setId("u-data");
  for (auto path : {"machine.volumes[0].selector"_kj, "machine.ephemeralSize.most"_kj}) {
    changed.clear();
    changed.add(config::Change{kj::str(path), true});
    EXPECT_EQ("u-data: no", kj::strArray(foreseen(), " | "));
  }
  changed.clear();
  changed.add(config::Change{kj::str("machine.sysctls.vm.a"), true});
  EXPECT_EQ(0u, foreseen().size());
}

// Catches: trimming that is "in effect" in a container; a volume that is named for a change of
// trimming, which is another document.
TEST_F(ConfigEffectsTest, TrimmingThatTheNodeNeverDoesIsNamed) {
  auto machine = wanted.getRoot<config::Machine>();
  machine.initVolumes(2)[0].setId("u-data");
  machine.getVolumes()[1].setId("FilesystemTrimConfig");  // as the node says it
  changed.add(config::Change{kj::str("machine.trims"), true});
  EXPECT_EQ("FilesystemTrimConfig: no", kj::strArray(foreseen(), " | "));
  volumeProblem = "FilesystemTrimConfig: no";
  EXPECT_EQ("FilesystemTrimConfig: no", answer(ask({"machine.trims[0].seconds"})));
  EXPECT_EQ("", answer(ask({"machine.env.a"})));
  volumeProblem = "UserVolumeConfig[data]: waiting";
  EXPECT_EQ("", answer(ask({"machine.trims"})));
}

// Catches: "in effect" for an image to which the node upgrades itself no more; a warning about one
// to which it does, or that runs already; a dry run that takes the image of before for the new one.
TEST_F(ConfigEffectsTest, TheImageActsWhileTheNodeUpgradesItself) {
  auto later =
      "machine.install.image: acts when the system is installed on a disk; use talosctl "
      "upgrade";
  EXPECT_EQ(later, answer(ask({"machine.install.image"})));
  imageRuns = true;
  EXPECT_EQ("", answer(ask({"machine.install.image"})));
  EXPECT_EQ(std::string(later), kj::strArray(foreseen(), " | ").cStr());
  imagePending = true;
  EXPECT_EQ("", answer(ask({"machine.install.image"})));
  EXPECT_EQ(0u, foreseen().size());
}

// Catches: "in effect" for another image of CoreDNS, whose Deployment stays as it is; the same
// warning on a node that has created no objects.
TEST_F(ConfigEffectsTest, ObjectsThatExistAreNotChanged) {
  EXPECT_EQ("", answer(ask({"cluster.coreDNS.image", "cluster.proxy.mode"})));
  putRecord<rpc::ManifestStatusSpec>(
      store, "manifests", [](auto status) { status.initManifestsApplied(1).set(0, "11-core-dns"); },
      "kubed");
  EXPECT_EQ("cluster.coreDNS.image: changes no object that exists; use kubectl",
            answer(ask({"cluster.coreDNS.image", "cluster.proxy.mode"})));
  EXPECT_EQ("cluster.coreDNS.disabled: changes no object that exists; use kubectl",
            answer(ask({"cluster.coreDNS.disabled"})));
  EXPECT_EQ("", answer(ask({"cluster.proxy.disabled", "cluster.network.cni.name"})));
  putRecord<rpc::ManifestStatusSpec>(
      store, "manifests",
      [](auto status) {
        auto applied = status.initManifestsApplied(2);
        applied.set(0, "05-flannel");
        applied.set(1, "10-kube-proxy");
      },
      "kubed");
  EXPECT_EQ(
      "cluster.network.cni: changes no object that exists; use kubectl | "
      "cluster.proxy.disabled: changes no object that exists; use kubectl",
      answer(ask({"cluster.proxy.disabled", "cluster.network.cni.name"})));
}

// Catches: a setting that a driver does not have and that `status` calls a failure of the network,
// which diagnose leaves to the network's checks, and these do not know; one in no status at all.
TEST_F(ConfigEffectsTest, SettingsThatADriverLacksAreLeftOut) {
  putRecord<rpc::EthernetStatusSpec>(store, "eth0", [](auto status) {
    status.initProblems(1).set(0, "rings: the driver of the link has none");
  });
  EXPECT_STREQ("EthernetConfig eth0: rings: the driver of the link has none",
               kj::strArray(effects.leftOut(), " | ").cStr());
}

// Catches: a status without the label that the control plane refuses, of a config that was applied
// long ago; a status that keeps it after an administrator has set it.
TEST_F(ConfigEffectsTest, SettingsThatTheNodeObjectLacksAreLeftOut) {
  auto label = "machine.nodeLabels: a worker may not change its label a.kubernetes.io/b"_kj;
  specChanges();
  kubedReports(1, "", {label});
  EXPECT_STREQ(label.cStr(), kj::strArray(effects.leftOut(), " | ").cStr());
  kubedReports(1, "");
  EXPECT_EQ(0u, effects.leftOut().size());
}

}  // namespace
}  // namespace talos::machined
