// Configs over the wire, within machined: the Node of callers with a certificate, and the Node of
// callers without.
#include "common/config/config-generate.h"
#include "machined/api/node-server.h"
#include "machined/config/configuration-server.h"
#include "machined/config/test-config-manager.h"
#include "machined/resources/store-records.h"

namespace talos::machined {
namespace {

struct ConfigurationTest : public ConfigManagerTest {
  ~ConfigurationTest() noexcept override {}
  Rules rules{capnp::Schema::from<rpc::Node>()};
  bool networkKnown = false;

  kj::Promise<ConfigurationServer::NetworkPreview> preview(const KnownConfig& wanted) {
    if (!networkKnown) return error(ErrorKind::kUnavailable, "networkd is away");
    ConfigurationServer::NetworkPreview network;
    network.steps.add(kj::str("name ", wanted.get().getMachine().getNetwork().getHostname()));
    network.problems.add(kj::str("there is no eth9"));
    return kj::mv(network);
  }

  static kj::Array<kj::String> causes(kj::ArrayPtr<const config::Change> changes,
                                      kj::StringPtr cause) {
    return KJ_MAP(change, changes) {
      return kj::str(change.path, cause);
    };
  }
  static kj::Vector<ConfigurationServer::Manifest> manifests(const KnownConfig& wanted) {
    kj::Vector<ConfigurationServer::Manifest> all;
    all.add(ConfigurationServer::Manifest{
        kj::str("11-x"), kj::str(wanted.get().getMachine().getNetwork().getHostname())});
    return all;
  }

  // Two parts, one of which depends on the config.
  static kj::Vector<ConfigurationServer::Part> parts(const KnownConfig& config) {
    kj::Vector<ConfigurationServer::Part> all;
    auto name = config.get().getMachine().getNetwork().getHostname();
    all.add(ConfigurationServer::Part{kj::str("named"), kj::heapArray(name.asBytes())});
    all.add(ConfigurationServer::Part{kj::str("other"), nullptr});
    return all;
  }

  rpc::Node::Client node(ConfigManager::Caller caller) {
    kj::Exception none = KJ_EXCEPTION(FAILED, "not in this test");
    auto& b = brain();
    auto served = serveNode(
        NodeParts{.machine = kj::cp(none),
                  .services = kj::cp(none),
                  .events = kj::cp(none),
                  .logs = kj::cp(none),
                  .files = kj::cp(none),
                  .resources = kj::cp(none),
                  .sensitiveResources = kj::cp(none),
                  .networkd = kj::cp(none),
                  .configuration = kj::heap<ConfigurationServer>(
                      b.manager, b.reader, b.store, b.foreign, caller, kj::str("this boot"),
                      [this](auto& wanted) { return preview(wanted); },
                      ConfigurationServer::Effects{
                          [](auto changes) -> kj::Promise<kj::Array<kj::String>> {
                            return causes(changes, ": refused");
                          },
                          [](auto changes, auto&) { return causes(changes, ": foreseen"); }},
                      [](auto& wanted) { return manifests(wanted); },
                      [](auto& config) { return parts(config); }),
                  .storage = kj::cp(none),
                  .containers = kj::cp(none),
                  .upgrades = kj::cp(none),
                  .etcdSupervisor = kj::cp(none),
                  .kubed = kj::cp(none)});
    if (caller == ConfigManager::Caller::kAdmin) return served;
    return serveMaintenance(rules, kj::mv(served),
                            [&b]() { return b.manager.showsStateToAnybody(); });
  }
  rpc::Configuration::Client configuration(ConfigManager::Caller caller) {
    return node(caller).configurationRequest().send().getConfiguration();
  }
  static auto applyRequest(rpc::Configuration::Client to, kj::StringPtr text,
                           ApplyMode mode = ApplyMode::REBOOT) {
    auto request = to.applyRequest();
    request.initRequest().setDocument(text.asBytes());
    request.getRequest().setMode(mode);
    return request.send();
  }
  // Returns an administrator's request to apply the document b, with the fields that `fill` sets.
  template <typename Fill>
  auto applyB(Fill&& fill) {
    auto request = configuration(ConfigManager::Caller::kAdmin).applyRequest();
    auto text = document("b");
    request.initRequest().setDocument(text.asBytes());
    fill(request.getRequest());
    return request.send();
  }
  static kj::String keys(kj::StringPtr passphrase) {
    return kj::str("  systemDiskEncryption: {ephemeral: {keys: [{static: {passphrase: ", passphrase,
                   "}}]}}\n");
  }
  static auto generateRequest(rpc::Configuration::Client to) {
    auto request = to.generateRequest();
    request.initRequest().setClusterName("made");
    request.getRequest().setEndpoint("https://10.0.0.1:6443");
    return request.send();
  }
  template <typename T>
  std::string failure(T promise) {
    std::string text = "nothing was refused";
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { promise.wait(io.waitScope); })) {
      text = std::string(nameOf(kindOf(*e)).cStr()) + ": " + messageOf(*e).cStr();
    }
    return text;
  }
  // The text of one of the documents.
  static kj::String content(rpc::Configuration::GenerateResults::Reader results,
                            kj::StringPtr name) {
    for (auto file : results.getDocuments()) {
      if (file.getName() == name) return kj::str(file.getContent().asChars());
    }
    return kj::str();
  }
};

constexpr auto kAdmin = ConfigManager::Caller::kAdmin, kVisitor = ConfigManager::Caller::kVisitor;

// Catches: an answer that lacks facts for the caller's decision, or contains a secret.
TEST_F(ConfigurationTest, TellsWhatWasDone) {
  booted(document("a"));
  auto other = document("b", "  env: {a: b}\n");
  auto changed = kj::str(other);
  for (char& c : changed) {
    if (c == 'b' && (&c)[1] == 'b') c = 'c';  // the token of the cluster
  }
  auto response = applyRequest(configuration(kAdmin), changed).wait(io.waitScope);
  auto result = response.getResult();
  EXPECT_EQ(ApplyMode::REBOOT, result.getMode());
  EXPECT_EQ(kj::StringPtr("this boot"), result.getBootId());
  EXPECT_EQ(3u, result.getChanges().size());
  EXPECT_TRUE(contains(result.getDiff().cStr(), "+    hostname: b")) << result.getDiff().cStr();
  EXPECT_FALSE(contains(result.getDiff().cStr(), "bbbbb")) << result.getDiff().cStr();
  EXPECT_FALSE(contains(result.getDiff().cStr(), "ccccc")) << result.getDiff().cStr();
}

// Catches: a dry run that hides the resulting network, or that the network is unknown.
TEST_F(ConfigurationTest, ADryRunTellsOfTheNetwork) {
  booted(document("a"));
  for (bool known : {true, false}) {
    networkKnown = known;
    auto response = applyB([](auto request) { request.setDryRun(true); }).wait(io.waitScope);
    auto result = response.getResult();
    ASSERT_EQ(known ? 1u : 0u, result.getNetworkPlan().size());
    ASSERT_EQ(known ? 1u : 0u, result.getNetworkProblems().size());
    ASSERT_EQ(known ? 0u : 1u, result.getWarnings().size());
    if (known) {
      EXPECT_EQ(kj::StringPtr("name b"), result.getNetworkPlan()[0]);
      EXPECT_EQ(kj::StringPtr("there is no eth9"), result.getNetworkProblems()[0]);
    } else {
      EXPECT_EQ(kj::StringPtr("cannot predict the changes of the network: networkd is away"),
                result.getWarnings()[0]);
    }
    EXPECT_EQ("a/a", state());
  }
}

// Catches: a trial whose length differs from the request, also if the requested length exceeds a
// duration.
TEST_F(ConfigurationTest, ATrialIsAsLongAsWasAskedFor) {
  booted(document("a"));
  auto request = [&](uint64_t length) {
    return applyB([&](auto request) {
      request.setMode(ApplyMode::TRY);
      request.setTryTimeoutMs(length);
    });
  };
  for (uint64_t length : {uint64_t(0), uint64_t(86'400'001), uint64_t(1) << 63, ~uint64_t(0)}) {
    EXPECT_TRUE(
        contains(failure(request(length)), "InvalidArgument: the time of a trial must be 1s"));
  }
  auto response = request(90'000).wait(io.waitScope);
  EXPECT_EQ(90'000u, response.getResult().getRevertsInMs());
  EXPECT_TRUE(brain().manager.revertsIn() == 90 * kj::SECONDS);
}

// Catches: a number of an operation that the wire loses, or an answer without the boot that has the
// operation.
TEST_F(ConfigurationTest, AnOperationHasTheNumberOfItsCaller) {
  booted(document("a"));
  auto text = document("b", keys("old"));
  auto request = configuration(kAdmin).applyRequest();
  request.initRequest().setDocument(text.asBytes());
  request.getRequest().setMode(ApplyMode::STAGED);
  request.getRequest().setOperation(77);
  auto response = request.send().wait(io.waitScope);
  EXPECT_EQ(77u, response.getResult().getOperation());
  EXPECT_EQ(kj::StringPtr("this boot"), response.getResult().getBootId());
  settle();
  EXPECT_EQ("a/b", state());
}

// Catches: effects that are looked for before the operation has published the config; a caller
// that is answered with the config from before the operation when the operation has ended, or with
// the new one earlier.
TEST_F(ConfigurationTest, AfterAnOperationCallersGetItsConfig) {
  booted(document("a", keys("old")));
  auto paf = kj::newPromiseAndFulfiller<void>();
  brain().keysGate = paf.promise.fork();
  auto text = document("b", keys("new"));
  auto response =
      applyRequest(configuration(kAdmin), text, ApplyMode::NO_REBOOT).wait(io.waitScope);
  EXPECT_NE(0u, response.getResult().getOperation());
  EXPECT_EQ(2u, response.getResult().getChanges().size());
  EXPECT_EQ(0u, response.getResult().getNotInEffect().size());
  settle();
  EXPECT_EQ("a/a*", state());
  auto changesLeft = [&] {
    auto request = configuration(kAdmin).applyRequest();
    request.initRequest().setDocument(text.asBytes());
    request.getRequest().setMode(ApplyMode::NO_REBOOT);
    request.getRequest().setDryRun(true);
    return request.send().wait(io.waitScope).getResult().getChanges().size();
  };
  EXPECT_EQ(2u, changesLeft());
  paf.fulfiller->fulfill();
  settle();
  EXPECT_EQ("b/b", state());
  EXPECT_EQ(0u, changesLeft());
}

// Catches: a version that the wire loses.
TEST_F(ConfigurationTest, TheVersionThatADocumentWasMadeFromCounts) {
  booted(document("a"));
  auto version =
      KJ_ASSERT_NONNULL(brain().store.tryGet<rpc::MachineConfigSpec>(kMachineConfigId)).version();
  auto request = [&](uint64_t from) {
    return applyB([&](auto request) {
      request.setMode(ApplyMode::NO_REBOOT);
      request.setIfVersion(from);
    });
  };
  EXPECT_TRUE(contains(failure(request(version + 1)), "Conflict: the config changed"));
  EXPECT_EQ("a/a", state());
  request(version).wait(io.waitScope);
  EXPECT_EQ("b/b", state());
}

// Catches: a capability from maintenance mode that still works when the machine has a config: to
// apply another config, or to request the keys of its cluster.
TEST_F(ConfigurationTest, WhatAVisitorHoldsIsWorthNothingAfterwards) {
  sources.answers.add(kj::str());
  auto loading = waitForAConfig();
  auto& b = brain();
  auto visitors = node(kVisitor);
  auto held = visitors.configurationRequest().send().getConfiguration();
  auto bare = configuration(kVisitor);  // inside of the membrane: machined's own check
  auto generated = generateRequest(held).wait(io.waitScope);
  auto mine = content(generated, "controlplane.yaml");
  EXPECT_EQ("InvalidArgument", failure(applyRequest(held, "machine: {}\n")).substr(0, 15));
  applyRequest(held, document("b")).wait(io.waitScope);
  ASSERT_TRUE(loading.poll(io.waitScope));
  EXPECT_EQ("b/b", state());

  constexpr const char* kText =
      "Unauthenticated: this node has a config now; connect with a client certificate";
  EXPECT_EQ(kText, failure(applyRequest(held, mine)));
  EXPECT_EQ(kText, failure(generateRequest(held)));
  EXPECT_EQ(kText, failure(visitors.configurationRequest().send()));
  EXPECT_EQ(kText, failure(visitors.machineRequest().send()));
  rpc::Configuration::Client inner = kj::heap<ConfigurationServer>(
      b.manager, b.reader, b.store, b.foreign, kVisitor, kj::str("this boot"),
      [this](auto& wanted) { return preview(wanted); },
      ConfigurationServer::Effects{
          [](auto) -> kj::Promise<kj::Array<kj::String>> { return kj::Array<kj::String>(); },
          [](auto, auto&) { return kj::Array<kj::String>(); }},
      [](auto& wanted) { return manifests(wanted); }, [](auto& config) { return parts(config); });
  EXPECT_EQ(kText, failure(applyRequest(inner, mine)));
  EXPECT_EQ(kText, failure(generateRequest(inner)));
  EXPECT_EQ("b/b", state());
  (void)bare;
}

// Catches: a dry run that returns the manifests of the running config instead of those of the new
// one, or manifests without a request for them.
TEST_F(ConfigurationTest, ADryRunAnswersWithManifestsWhenTheyAreWanted) {
  booted(document("a"));
  auto ask = [&](bool dryRun, bool manifests) {
    auto request = configuration(ConfigManager::Caller::kAdmin).applyRequest();
    request.initRequest().setDocument(document("b").asBytes());
    request.getRequest().setMode(ApplyMode::NO_REBOOT);
    request.getRequest().setDryRun(dryRun);
    request.getRequest().setManifests(manifests);
    auto response = request.send().wait(io.waitScope);
    std::string text;
    for (auto one : response.getResult().getManifests()) {
      text += kj::str(one.getId(), " ", one.getObjects()).cStr();
    }
    return text;
  };
  EXPECT_EQ("11-x b", ask(true, true));
  EXPECT_EQ("", ask(true, false));
  EXPECT_EQ("", ask(false, true));
}

// Catches: a part that is restarted without a word about it, in a dry run or for real; a word about
// a part that stays, or about a change of the next boot.
TEST_F(ConfigurationTest, WhatIsRestartedIsNamed) {
  booted(document("a"));
  auto ask = [&](kj::StringPtr text, ApplyMode mode, bool dryRun) {
    auto request = configuration(ConfigManager::Caller::kAdmin).applyRequest();
    request.initRequest().setDocument(text.asBytes());
    request.getRequest().setMode(mode);
    request.getRequest().setDryRun(dryRun);
    auto response = request.send().wait(io.waitScope);
    return std::string(kj::strArray(response.getResult().getRestarts(), " ").cStr());
  };
  EXPECT_EQ("", ask(document("a"), ApplyMode::NO_REBOOT, true));
  EXPECT_EQ("named", ask(document("b"), ApplyMode::NO_REBOOT, true));
  EXPECT_EQ("", ask(document("b"), ApplyMode::STAGED, false));
  EXPECT_EQ("named", ask(document("b"), ApplyMode::NO_REBOOT, false));
  EXPECT_EQ("", ask(document("b"), ApplyMode::NO_REBOOT, false));
}

// Catches: "in effect" for a change that is not; effects that are looked for in the kernel in a dry
// run, or before the boot that applies the config.
TEST_F(ConfigurationTest, WhatIsNotInEffectIsNamed) {
  booted(document("a"));
  auto ask = [&](kj::StringPtr text, ApplyMode mode, bool dryRun) {
    auto request = configuration(ConfigManager::Caller::kAdmin).applyRequest();
    request.initRequest().setDocument(text.asBytes());
    request.getRequest().setMode(mode);
    request.getRequest().setDryRun(dryRun);
    auto response = request.send().wait(io.waitScope);
    return std::string(kj::strArray(response.getResult().getNotInEffect(), " ").cStr());
  };
  auto with = document("a", "  sysctls: {vm.a: \"1\"}\n");
  EXPECT_EQ("", ask(document("a"), ApplyMode::NO_REBOOT, false));
  EXPECT_EQ("machine.sysctls.vm.a: foreseen", ask(with, ApplyMode::NO_REBOOT, true));
  // Catches: a dry run that does not name what the boot, too, leaves out.
  EXPECT_EQ("machine.sysctls.vm.a: foreseen", ask(with, ApplyMode::STAGED, true));
  EXPECT_EQ("machine.sysctls.vm.a: foreseen", ask(with, ApplyMode::REBOOT, true));
  EXPECT_EQ("", ask(with, ApplyMode::STAGED, false));
  EXPECT_EQ("machine.sysctls.vm.a: refused", ask(with, ApplyMode::NO_REBOOT, false));
}

// Catches: a machine with an unmountable STATE that accepts a config from any caller, or gives out
// secrets; or that does not report why it failed.
TEST_F(ConfigurationTest, AFailedBootTellsAndTakesNothing) {
  sources.answers.add(kj::str());
  auto loading = waitForAConfig();
  brain().failed = true;
  auto outer = configuration(kVisitor);
  constexpr auto kText = "Unauthenticated: the boot of this node failed";
  EXPECT_TRUE(contains(failure(applyRequest(outer, document("b"))), kText));
  EXPECT_TRUE(contains(failure(generateRequest(outer)), kText));
  EXPECT_EQ("-/-", state());
  EXPECT_TRUE(
      contains(failure(node(kVisitor).machineRequest().send().getMachine().versionRequest().send()),
               "not in this test"))
      << "version and status are not reached";
  brain().failed = false;
  EXPECT_EQ("nothing was refused", failure(applyRequest(outer, document("b"))));
}

// Catches: strangers who keep every CPU busy with generating keys of unused clusters.
TEST_F(ConfigurationTest, OnlySoManyClustersAreGeneratedAtOnce) {
  auto made = config::generate("own", "https://10.0.0.1:6443");
  auto& own = booted(made.controlplane);
  auto mine = configuration(kAdmin);
  {
    HeldReaders held(own.foreign);
    auto first = generateRequest(mine), second = generateRequest(mine);
    EXPECT_EQ("ResourceExhausted: 2 clusters are being generated already; retry",
              failure(generateRequest(mine)));
  }
  // The callers of these two have disconnected.
  EXPECT_EQ(4u, generateRequest(mine).wait(io.waitScope).getDocuments().size());
}

// Catches: another cluster's secrets from a control-plane machine, or secrets from a worker.
TEST_F(ConfigurationTest, GeneratesForItsOwnCluster) {
  booted(document("worker"));
  EXPECT_EQ(
      "FailedPrecondition: this node is a worker and does not have the secrets of the cluster; use "
      "a control-plane node",
      failure(generateRequest(configuration(kAdmin))));

  machine.drop();
  disk.content = nullptr;
  auto made = config::generate("own", "https://10.0.0.1:6443");
  booted(made.controlplane);
  auto response = generateRequest(configuration(kAdmin)).wait(io.waitScope);
  EXPECT_EQ(4u, response.getDocuments().size());
  auto own = config::parse(made.controlplane, "own");
  for (auto name : {"init.yaml"_kj, "controlplane.yaml"_kj, "join.yaml"_kj}) {
    auto text = content(response, name);
    auto other = config::parse(text.asArray(), name);
    ASSERT_TRUE(other.good()) << render(other.problems()).cStr();
    EXPECT_EQ(own.get().getMachine().getToken(), other.get().getMachine().getToken());
    EXPECT_EQ(own.get().getCluster().getCa().getCrt(), other.get().getCluster().getCa().getCrt());
  }
  auto admin = Talosconfig::parse(content(response, "talosconfig"), "talosconfig");
  EXPECT_EQ(kj::str(own.get().getMachine().getCa().getCrt().asChars()), admin.resolve("made").ca);
}

}  // namespace
}  // namespace talos::machined
