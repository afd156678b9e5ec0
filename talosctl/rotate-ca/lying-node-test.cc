// Rotates a CA while a node lies about itself: no key leaves the control plane, and the run ends
// with the name of the lying node.
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "talosctl/rotate-ca/test-rotated-cluster.h"

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kPlanes[] = {"10.0.0.2"_kj, "10.0.0.3"_kj, "10.0.0.4"_kj},
                        kLiar = "10.0.0.5"_kj, kHonestWorker = "10.0.0.6"_kj;
constexpr RotatedCa kEverything[] = {RotatedCa::kMachine,    RotatedCa::kKubernetes,
                                     RotatedCa::kSecretsKey, RotatedCa::kServiceAccountKey,
                                     RotatedCa::kAggregator, RotatedCa::kEtcd};

std::string nameOf(RotatedCa which) {
  constexpr const char* kNames[] = {"machine",        "kubernetes", "secretsKey",
                                    "serviceAccount", "aggregator", "etcd"};
  return kNames[static_cast<size_t>(which)];
}

kj::String encoded(kj::StringPtr text) {
  return kj::encodeBase64(text.asBytes());
}

kj::String pairOf(const pki::CertificateAndKey& pair, bool key) {
  return kj::str("{\"crt\": \"", encoded(pair.certificate), "\", \"key\": \"",
                 key ? encoded(pair.key) : kj::String(), "\"}");
}

struct Lie {
  const char* name;
  kj::String patch;
  bool always = false;  // tried at every moment
};

// Returns operations that give a node the keys of a control-plane node, none of which belongs to
// the cluster.
kj::String controlPlaneOps(kj::StringPtr type, const pki::CertificateAndKey& machine,
                           const pki::CertificateAndKey& kubernetes) {
  return kj::str(
      "{\"op\": \"replace\", \"path\": \"/machine/type\", \"value\": \"", type, "\"}, ",
      "{\"op\": \"add\", \"path\": \"/machine/ca\", \"value\": ", pairOf(machine, true),
      "}, {\"op\": \"add\", \"path\": \"/cluster/ca\", \"value\": ", pairOf(kubernetes, true), "}");
}

// Returns false values of /machine/ca or /cluster/ca, whichever CA is rotated.
kj::Vector<Lie> liesAbout(RotatedCa which, const pki::CertificateAndKey& machine,
                          const pki::CertificateAndKey& kubernetes,
                          const pki::CertificateAndKey& foreign) {
  kj::Vector<Lie> lies;
  auto path = which == RotatedCa::kMachine ? "/machine/ca"_kj : "/cluster/ca"_kj;
  auto& own = which == RotatedCa::kMachine ? machine : kubernetes;
  auto with = [&](const pki::CertificateAndKey& pair) {
    return kj::str("{\"op\": \"add\", \"path\": \"", path, "\", \"value\": ", pairOf(pair, false),
                   "}");
  };
  auto add = [&](const char* name, kj::StringPtr operations, bool always = false) {
    lies.add(Lie{name, kj::str("[", operations, "]"), always});
  };
  auto foreignKey = [&](const pki::CertificateAndKey& pair) {
    return pki::CertificateAndKey{kj::str(pair.certificate), foreign.key.clone()};
  };
  auto otherMachine = foreignKey(machine), otherKubernetes = foreignKey(kubernetes);
  pki::CertificateAndKey renamed{pki::crossSign(foreign.certificate, foreign.key, own.certificate),
                                 pki::Pem()};
  add("says controlplane", controlPlaneOps("controlplane", otherMachine, otherKubernetes));
  add("says init", controlPlaneOps("init", otherMachine, otherKubernetes));
  add("says controlplane, with CAs of its own", controlPlaneOps("controlplane", foreign, foreign),
      true);
  add("has a foreign CA", with(foreign), true);
  add("has another certificate of the same key", with(renamed));
  add("has no CA", kj::str("{\"op\": \"remove\", \"path\": \"", path, "\"}"));
  add("has a CA that is no certificate",
      kj::str("{\"op\": \"add\", \"path\": \"", path, "\", \"value\": {\"crt\": \"eHh4\"}}"));
  add("does not persist", "{\"op\": \"replace\", \"path\": \"/persist\", \"value\": false}");
  return lies;
}

struct LyingNode : public ::testing::TestWithParam<RotatedCa> {
  TestCluster c;
  kj::Vector<kj::Own<RotatedModel>> nodes;
  unsigned calls = 0;  // calls to all nodes
  pki::CertificateAndKey kubernetes = authority(), aggregator = authority(), etcd = authority();
  pki::Pem accounts = pki::makeKey(pki::KeyType::kEcdsaP256);
  pki::CertificateAndKey foreign =
      pki::makeAuthority({.organization = "talos", .notBefore = kj::UNIX_EPOCH + 900 * kj::DAYS});
  kj::Own<ModelRotation> run;
  kj::Own<Invocation> call;
  kj::Own<RemoteRotation> remote;
  RotationOptions options;

  ~LyingNode() noexcept override {}
  static pki::CertificateAndKey authority() {
    return pki::makeAuthority({.organization = "k8s",
                               .keyType = pki::KeyType::kEcdsaP256,
                               .notBefore = kj::UNIX_EPOCH + 1000 * kj::DAYS});
  }
  LyingNode() {
    c.clock.advanceTo(kj::origin<kj::TimePoint>());
    c.test.clock.time = kj::UNIX_EPOCH + 40'000 * kj::DAYS;
    reset();
    c.bootstrap = [this]() -> rpc::Cluster::Client {
      return kj::heap<RotatedModelCluster>(nodes, calls);
    };
  }
  void reset() {
    forget();
    nodes.clear();
    for (auto address : kPlanes) add(address, true);
    add(kLiar, false), add(kHonestWorker, false);
  }
  void forget() { run = nullptr, remote = nullptr, call = nullptr; }
  void add(kj::StringPtr address, bool controlPlane) {
    auto node = kj::heap<RotatedModel>();
    node->address = kj::str(address);
    node->document = kj::str(
        "{\"version\": \"v1alpha1\", \"persist\": true, \"machine\": {\"type\": \"",
        controlPlane ? "controlplane" : "worker", "\", \"token\": \"abcdef.0123456789abcdef\", ",
        "\"ca\": ", pairOf(c.authority, controlPlane),
        "}, \"cluster\": {\"controlPlane\": "
        "{\"endpoint\": \"https://10.0.0.9:6443\"}, \"token\": \"abcdef.0123456789abcdef\", "
        "\"ca\": ",
        pairOf(kubernetes, controlPlane),
        controlPlane ? kj::str(", \"aggregatorCA\": ", pairOf(aggregator, true),
                               ", \"etcd\": {\"ca\": ", pairOf(etcd, true),
                               "}, \"serviceAccount\": {\"key\": \"", encoded(accounts),
                               "\"}, \"secretboxEncryptionSecret\": \"",
                               kj::encodeBase64(kj::heapArray<kj::byte>(32)), "\"")
                     : kj::str(),
        "}}\n");
    node->members = [this] { return members(); };
    nodes.add(kj::mv(node));
  }
  kj::Vector<ClusterMember> members() {
    kj::Vector<ClusterMember> list;
    for (auto i : kj::indices(nodes)) {
      auto& one = list.add();
      one.name = kj::str("node-", i);
      one.addresses.add(kj::str(nodes[i]->address));
      one.controlPlane = i < kj::size(kPlanes);
    }
    return list;
  }
  RotatedModel& node(kj::StringPtr address) {
    for (auto& one : nodes) {
      if (one->address == address) return *one;
    }
    KJ_FAIL_REQUIRE("no such node", address);
  }

  // Returns the error with which a rotation ends; empty if it is complete.
  std::string rotate() {
    forget();
    call = kj::heap<Invocation>(*c.deps, *c.root, *c.root);
    auto client = pki::issue(c.authority.certificate, c.authority.key,
                             {.organizations = kj::arr(kj::str("os:admin")), .server = false});
    Target target{.endpoints = {},
                  .nodes = {},
                  .credentials = {kj::str(c.authority.certificate), kj::mv(client.certificate),
                                  kj::mv(client.key)},
                  .fingerprints = {}};
    target.endpoints.add(kj::str("127.0.0.1"));
    remote = kj::heap<RemoteRotation>(*c.deps, kj::mv(target), 30 * kj::SECONDS);
    run = kj::heap<ModelRotation>(*call, *remote, options, GetParam());
    std::string error;
    auto work = [&]() -> kj::Promise<int> {
      co_await run->look();
      co_await run->run();
      co_return 0;
    };
    auto end = work().catch_([&](kj::Exception&& e) {
      error = messageOf(e).cStr();
      return 1;
    });
    finish(kj::mv(end));
    return error;
  }
  // The client's clock jumps when no node is called any more, because a run waits for minutes.
  void finish(kj::Promise<int> end) {
    auto& scope = c.test.io.waitScope;
    for (int jumps = 0; jumps < 40; ++jumps) {
      auto before = calls;
      for (int still = 0; still < 40; still = calls == before ? still + 1 : 0) {
        before = calls;
        c.test.deps.timer.afterDelay(1 * kj::MILLISECONDS).wait(scope);
        if (end.poll(scope)) return void(end.wait(scope));
      }
      c.clock.advanceTo(c.clock.now() + 1 * kj::MINUTES);
    }
    ADD_FAILURE() << "the run never ends";
  }
  // Workers are not involved in the rotation, but their configs are read.
  void onlyInTheFirstLook() {
    for (auto& lie : liesAbout(RotatedCa::kMachine, c.authority, kubernetes, foreign)) {
      if (strstr(lie.name, "says") == nullptr) continue;
      reset();
      node(kLiar).lie = [&]() -> kj::Maybe<kj::StringPtr> { return lie.patch.asPtr(); };
      auto error = rotate();
      EXPECT_NE(error.find("10.0.0.5"), std::string::npos) << lie.name << ": " << error;
      for (auto& one : nodes) EXPECT_TRUE(one->received.empty()) << lie.name;
    }
  }
  bool wasSent(kj::StringPtr address, kj::StringPtr text) {
    for (auto& one : node(address).received) {
      if (strstr(one.cStr(), text.cStr()) != nullptr) return true;
    }
    return false;
  }
  // Returns each private key that a config of the control plane has now or had at the beginning.
  kj::Vector<kj::String> keys() {
    kj::Vector<kj::String> all;
    for (auto address : kPlanes) {
      auto config = config::parse(node(address).document.asArray());
      auto machine = config.get().getMachine();
      auto cluster = config.get().getCluster();
      for (auto key :
           {machine.getCa().getKey(), cluster.getCa().getKey(), cluster.getAggregatorCA().getKey(),
            cluster.getEtcd().getCa().getKey(), cluster.getServiceAccount().getKey()}) {
        if (key.size() > 0) all.add(kj::encodeBase64(key));
      }
      all.add(kj::str(cluster.getSecretboxEncryptionSecret()));
    }
    if (run->plan().newKey.bytes().size() > 0) all.add(encoded(run->plan().newKey));
    return all;
  }
  void expectNoKeyAt(kj::StringPtr address, const std::string& what) {
    for (auto& document : node(address).received) {
      for (auto& key : keys()) {
        EXPECT_EQ(strstr(document.cStr(), key.cStr()), nullptr) << what << ": a key has left";
      }
    }
  }
};

// The moment from which a node lies.
enum class Moment { kLook, kAccept, kAfterAccept, kIssue, kAfterIssue, kDrop };
constexpr Moment kMoments[] = {Moment::kLook,  Moment::kAccept,     Moment::kAfterAccept,
                               Moment::kIssue, Moment::kAfterIssue, Moment::kDrop};

bool hasCome(Moment moment, const ModelRotation& run, const RotatedModel& node) {
  if (moment == Moment::kLook) return true;
  if (run.now == nullptr) return false;
  auto now = KJ_ASSERT_NONNULL(run.now);
  auto changes = node.received.size();
  switch (moment) {
    case Moment::kLook:
    case Moment::kAccept:
      return true;
    case Moment::kAfterAccept:
      return changes >= 1;
    case Moment::kIssue:
      return now >= RotationPhase::kIssue;
    case Moment::kAfterIssue:
      return changes >= 2;
    case Moment::kDrop:
      return now >= RotationPhase::kDrop;
  }
  KJ_UNREACHABLE;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(EachCaAndKey, LyingNode, ::testing::ValuesIn(kEverything),
                         [](auto& info) { return nameOf(info.param); });

// Catches: a rotation that stops without a lie, or that counts as incomplete at its end; a phase
// that leaves out a worker; a test that finds no leaked key because there are no keys.
TEST_P(LyingNode, WithoutALiarTheRotationIsCompleteAndWorkersGetNoKey) {
  EXPECT_EQ(rotate(), "");
  EXPECT_TRUE(isComplete(run->state().rotation, run->state().nodes));
  auto fresh = GetParam() == RotatedCa::kSecretsKey ? run->plan().newKey.clone()
                                                    : pki::Pem(encoded(run->plan().newKey));
  for (auto address : kPlanes) {
    EXPECT_TRUE(wasSent(address, fresh)) << address.cStr();
  }
  bool ofAll = !isOfControlPlane(GetParam());
  EXPECT_EQ(node(kLiar).received.size(), ofAll ? 3u : 0u);
  expectNoKeyAt(kLiar, "honest"), expectNoKeyAt(kHonestWorker, "honest");
}

// Catches: a run that was cut off and left no mark; a mark of a run that has changed nothing.
TEST_P(LyingNode, TheMarkIsWrittenBeforeTheFirstChange) {
  options.mark = kj::str(c.folder, "/mark");
  auto lies = liesAbout(RotatedCa::kMachine, c.authority, kubernetes, foreign);
  node(kLiar).lie = [&]() -> kj::Maybe<kj::StringPtr> { return lies[0].patch.asPtr(); };
  EXPECT_NE(rotate(), "");
  EXPECT_TRUE(tryReadFile(options.mark) == nullptr);
  reset();
  auto& first = node(kPlanes[0]);
  bool marked = true;
  first.lie = [&]() -> kj::Maybe<kj::StringPtr> {
    if (!first.received.empty()) marked = marked && tryReadFile(options.mark) != nullptr;
    return nullptr;
  };
  EXPECT_EQ(rotate(), "");
  EXPECT_FALSE(first.received.empty());
  EXPECT_TRUE(marked);
}

// Catches: a new key for a node that answers like a control-plane node; a run that continues with a
// node whose answer has changed, or that ends without its name.
TEST_P(LyingNode, AWorkerThatLiesEndsTheRunAndGetsNoKey) {
  if (isOfControlPlane(GetParam())) return void(onlyInTheFirstLook());
  bool machine = GetParam() == RotatedCa::kMachine;
  auto lies = liesAbout(GetParam(), c.authority, kubernetes, foreign);
  for (auto moment : kMoments) {
    bool all = moment == Moment::kLook || moment == Moment::kIssue;
    for (auto& lie : lies) {
      if (!all && (!machine || !lie.always)) continue;
      auto what = kj::str(lie.name, ", moment ", static_cast<int>(moment));
      SCOPED_TRACE(what.cStr());
      reset();
      auto& liar = node(kLiar);
      liar.lie = [&]() -> kj::Maybe<kj::StringPtr> {
        if (!hasCome(moment, *run, liar)) return nullptr;
        return lie.patch.asPtr();
      };
      auto error = rotate();
      EXPECT_NE(error.find("10.0.0.5"), std::string::npos) << error;
      EXPECT_FALSE(isComplete(run->state().rotation, run->state().nodes))
          << "no run got to the end of the drop";
      expectNoKeyAt(kLiar, what.cStr());
      bool refused = moment == Moment::kLook && liar.received.empty();
      for (auto& one : nodes) {
        if (refused) EXPECT_TRUE(one->received.empty()) << one->address.cStr() << ": " << error;
      }
      // The run must not wait for a node whose answer has changed.
      if (moment > Moment::kLook && error.find("its config has errors") == std::string::npos) {
        EXPECT_NE(error.find("10.0.0.5 has changed its answer: "), std::string::npos) << error;
      }
    }
  }
}

// Catches: a worker whose list of CAs determines the phase of the cluster, or the old CA: a client
// configuration of this CA would be written.
TEST_P(LyingNode, TheListOfAWorkerDecidesNothing) {
  if (isOfControlPlane(GetParam())) return;
  bool machine = GetParam() == RotatedCa::kMachine;
  auto& own = machine ? c.authority : kubernetes;
  auto cross = pki::crossSign(foreign.certificate, foreign.key, own.certificate);
  auto& liar = node(kLiar);
  auto patch = kj::str("[{\"op\": \"add\", \"path\": \"/", machine ? "machine" : "cluster",
                       "/acceptedCAs\", \"value\": [{\"crt\": \"", encoded(foreign.certificate),
                       "\"}, {\"crt\": \"", encoded(cross), "\"}]}]");
  bool lies = true;
  liar.lie = [&]() -> kj::Maybe<kj::StringPtr> {
    if (!lies || !liar.received.empty()) return nullptr;
    return patch.asPtr();
  };
  EXPECT_EQ(rotate(), "");
  EXPECT_EQ(run->plan().oldCa, own.certificate);
  EXPECT_FALSE(run->plan().begun);
  EXPECT_EQ(strstr(liar.document.cStr(), encoded(foreign.certificate).cStr()), nullptr);
}

// Catches: a new key for a host that impersonates a control-plane node and has its certificates but
// no key.
TEST_P(LyingNode, WhoeverAnswersForAControlPlaneNodeMustShowItsKeyEachTime) {
  pki::CertificateAndKey mixed{kj::str(c.authority.certificate), foreign.key.clone()};
  for (bool key : {false, true}) {
    for (auto& shown : {&c.authority, &mixed, &foreign}) {
      if (key && shown == &c.authority) continue;
      for (auto moment : {Moment::kLook, Moment::kIssue}) {
        reset();
        auto& replaced = node(kPlanes[1]);
        auto patch = kj::str(
            "[{\"op\": \"add\", \"path\": \"/machine/ca\", \"value\": ", pairOf(*shown, key), "}]");
        size_t before = 0;
        replaced.lie = [&]() -> kj::Maybe<kj::StringPtr> {
          if (!hasCome(moment, *run, replaced)) return nullptr;
          if (before == 0) before = replaced.received.size();
          return patch.asPtr();
        };
        auto error = rotate();
        EXPECT_NE(error.find("10.0.0.3"), std::string::npos) << error;
        EXPECT_EQ(replaced.received.size(), before) << error;
      }
    }
  }
}

// Catches: a member list in which a worker counts as a control-plane node, or a node is missing,
// because this worker returned the list.
TEST_P(LyingNode, TheMembersAreThoseThatTheControlPlaneLists) {
  options.asked = kj::str(kLiar);
  auto& liar = node(kLiar);
  liar.members = [this] {
    auto list = members();
    list.removeLast();
    return list;
  };
  auto error = rotate();
  EXPECT_NE(error.find("10.0.0.5 lists other members than the control-plane node 10.0.0.2"),
            std::string::npos)
      << error;
  auto type = kj::str("[", controlPlaneOps("controlplane", foreign, foreign), "]");
  liar.lie = [&]() -> kj::Maybe<kj::StringPtr> { return type.asPtr(); };
  for (bool alone : {false, true}) {
    liar.members = [this, alone] {
      kj::Vector<ClusterMember> list;
      for (auto& one : members()) {
        if (alone && one.addresses[0] != kLiar) continue;
        one.controlPlane = one.controlPlane || one.addresses[0] == kLiar;
        list.add(kj::mv(one));
      }
      return list;
    };
    error = rotate();
    EXPECT_NE(error.find("10.0.0.5: its config has machine.type: controlplane, but it does not "
                         "have the key"),
              std::string::npos)
        << error;
  }
  // The lying node lists the others, so the error names the node that listed them.
  liar.lie = [] { return nullptr; };
  liar.members = [this] {
    auto list = members();
    list[4].controlPlane = true;
    return list;
  };
  error = rotate();
  EXPECT_NE(error.find("10.0.0.6: its config has machine.type: worker, but the members of the "
                       "cluster list it as controlplane (10.0.0.5 was asked for them)"),
            std::string::npos)
      << error;
  // One address for two members.
  for (auto asked : {kLiar, kPlanes[0]}) {
    node(asked).members = [this] {
      auto list = members();
      list[3].addresses.add(kj::str(kPlanes[0]));
      return list;
    };
  }
  error = rotate();
  EXPECT_NE(error.find("10.0.0.2 is a name or an address of two nodes"), std::string::npos)
      << error;
  for (auto& one : nodes) EXPECT_TRUE(one->received.empty());
}

}  // namespace talos::talosctl
