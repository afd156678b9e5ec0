// Tests the progress of a rotation and its remaining work, by the configs of the nodes.
#include "talosctl/rotate-ca/rotation-plan.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/tls/authorities.h"
#include "common/tls/public-key.h"
#include "talosctl/config/patches.h"
#include "talosctl/rotate-ca/worker-tokens.h"

namespace talos::talosctl {
namespace {

constexpr auto kNow = kj::UNIX_EPOCH + 20'000 * kj::DAYS;
constexpr kj::StringPtr kPlanesToken = "abcdef.0123456789abcdef"_kj,
                        kSpentToken = "join-k3x9qf.5v0c8m2w7t1rj4ne"_kj;

struct RotationPlanTest : ::testing::Test {
  ~RotationPlanTest() noexcept override {}
  pki::CertificateAndKey first =
      pki::makeAuthority({.organization = "talos", .notBefore = kNow - 100 * kj::DAYS});
  kj::Vector<RotatedNode> nodes;
  RotatedCa which = RotatedCa::kMachine;

  RotatedNode node(kj::StringPtr address, bool controlPlane) {
    return {.address = kj::str(address),
            .name = {},
            .ip = {},
            .controlPlane = controlPlane,
            .ca = kj::str(first.certificate),
            .caHash = {},
            .key = controlPlane ? first.key.clone() : pki::Pem(),
            .accepted = {},
            .token = pki::Pem(kj::str(kPlanesToken)),
            .certificate = {}};
  }
  void SetUp() override {
    nodes.add(node("10.0.0.2", true));
    nodes.add(node("10.0.0.3", true));
    nodes.add(node("10.0.0.5", false));
  }
  kj::Vector<ListedToken> tokens;
  Rotation plan() { return planRotation(which, nodes, kNow, tokens); }
  std::string refusal() {
    auto failure = kj::runCatchingExceptions([&] { plan(); });
    KJ_IF_MAYBE (e, failure) return messageOf(*e).cStr();
    return "not refused";
  }

  // Applies the patch to a config of the node, and reads the result back.
  static void change(RotatedNode& node, const Rotation& rotation, RotationPhase phase) {
    auto patch = rotationPatch(node, rotation, phase);
    if (patch == nullptr) return;
    kj::Vector<kj::String> accepted;
    for (auto& one : node.accepted) {
      accepted.add(kj::str("{crt: ", kj::encodeBase64(one.asBytes()), "}"));
    }
    auto ca = node.ca.size() > 0 ? kj::str("{crt: ", kj::encodeBase64(node.ca.asBytes()),
                                           ", key: \"", kj::encodeBase64(node.key.bytes()), "\"}")
                                 : kj::str("{}");
    auto list = kj::str("[", kj::strArray(accepted, ", "), "]");
    auto text =
        kj::str("version: v1alpha1\npersist: true\nmachine:\n  type: ",
                node.controlPlane ? "controlplane" : "worker", "\n",
                node.caHash.size() > 0 ? kj::str("  caHash: ", node.caHash, "\n") : kj::str(),
                linesOf(rotation.which, ca, list));
    kj::Vector<Patch> patches;
    patches.add(Patch{kj::str("test"), kj::mv(KJ_ASSERT_NONNULL(patch))});
    auto changed = applyPatches(text, "config", patches);
    auto config = config::parse(changed.asArray());
    auto read = [&](config::CertificateAndKey::Reader pair,
                    capnp::List<config::AcceptedCa>::Reader others) {
      node.ca = kj::heapString(pair.getCrt().asChars());
      node.key = pki::Pem(kj::heapString(pair.getKey().asChars()));
      node.accepted.clear();
      for (auto one : others) node.accepted.add(kj::heapString(one.getCrt().asChars()));
    };
    auto machine = config.get().getMachine();
    auto cluster = config.get().getCluster();
    node.caHash = kj::str(machine.getCaHash());
    if (rotation.which == RotatedCa::kMachine) read(machine.getCa(), machine.getAcceptedCAs());
    if (rotation.which == RotatedCa::kKubernetes) read(cluster.getCa(), cluster.getAcceptedCAs());
    if (rotation.which == RotatedCa::kAggregator) {
      read(cluster.getAggregatorCA(), cluster.getAcceptedAggregatorCAs());
    }
    if (rotation.which == RotatedCa::kEtcd) {
      read(cluster.getEtcd().getCa(), cluster.getEtcd().getAcceptedCAs());
    }
  }
  static kj::String linesOf(RotatedCa which, kj::StringPtr ca, kj::StringPtr list) {
    switch (which) {
      case RotatedCa::kMachine:
        return kj::str("  ca: ", ca, "\n  acceptedCAs: ", list, "\n");
      case RotatedCa::kAggregator:
        return kj::str("cluster:\n  aggregatorCA: ", ca, "\n  acceptedAggregatorCAs: ", list, "\n");
      case RotatedCa::kEtcd:
        return kj::str("cluster:\n  etcd:\n    ca: ", ca, "\n    acceptedCAs: ", list, "\n");
      default:
        return kj::str("cluster:\n  ca: ", ca, "\n  acceptedCAs: ", list, "\n");
    }
  }
  void changeAll(const Rotation& rotation, RotationPhase phase) {
    for (auto& one : nodes) change(one, rotation, phase);
  }
};

}  // namespace

// Catches: a phase that leaves something out, a key on a worker, a node that is changed again.
TEST_F(RotationPlanTest, ThreePhasesLeaveTheNewCaAlone) {
  auto rotation = plan();
  EXPECT_EQ(rotation.phase, RotationPhase::kAccept);
  EXPECT_FALSE(rotation.begun);
  EXPECT_EQ(rotation.oldCa, first.certificate);
  changeAll(rotation, RotationPhase::kAccept);
  for (auto& one : nodes) {
    auto now = pki::authoritiesOf(one.ca, kj::strArray(one.accepted, ""));
    EXPECT_EQ(now.trusted, kj::str(first.certificate, rotation.newCa));
    EXPECT_TRUE(pki::isSignedBy(now.behind, rotation.newCa));
    EXPECT_EQ(rotationPatch(one, rotation, RotationPhase::kAccept), nullptr);
  }
  changeAll(rotation, RotationPhase::kIssue);
  for (auto& one : nodes) {
    auto now = pki::authoritiesOf(one.ca, kj::strArray(one.accepted, ""));
    EXPECT_EQ(now.trusted, kj::str(rotation.newCa, first.certificate));
    EXPECT_TRUE(pki::isSignedBy(now.behind, first.certificate));
    EXPECT_EQ(one.controlPlane, kj::StringPtr(one.key) == kj::StringPtr(rotation.newKey));
    EXPECT_EQ(one.controlPlane, kj::StringPtr(one.key).size() > 0);
  }
  changeAll(rotation, RotationPhase::kDrop);
  for (auto& one : nodes) {
    EXPECT_EQ(one.ca, rotation.newCa);
    EXPECT_EQ(one.accepted.size(), 0u);
  }
  EXPECT_FALSE(plan().begun);
}

// Catches: a rotation of Kubernetes' CA that changes the machine's CA; programs in pods that can
// verify no server after the drop; a CA of a type that other programs cannot use; an old key that
// is lost while trials need it; a finished rotation that is taken for an interrupted one.
TEST_F(RotationPlanTest, OfKubernetesTheNewCaAsTheOldOneSignedItStays) {
  which = RotatedCa::kKubernetes;
  auto rotation = plan();
  EXPECT_TRUE(strstr(rotation.newKey.bytes().asChars().begin(), "BEGIN EC PRIVATE KEY") != nullptr);
  EXPECT_EQ(kj::StringPtr(rotation.oldKey), kj::StringPtr(first.key));
  auto patch = KJ_ASSERT_NONNULL(rotationPatch(nodes[0], rotation, RotationPhase::kAccept));
  EXPECT_TRUE(strstr(patch.cStr(), "\"/cluster/acceptedCAs\"") != nullptr);
  EXPECT_TRUE(strstr(patch.cStr(), "/machine/") == nullptr);
  changeAll(rotation, RotationPhase::kAccept);
  changeAll(rotation, RotationPhase::kIssue);
  change(nodes[1], rotation, RotationPhase::kDrop);
  auto again = plan();
  EXPECT_EQ(again.phase, RotationPhase::kDrop);
  EXPECT_EQ(again.newByOld, rotation.newByOld);
  EXPECT_EQ(kj::StringPtr(again.oldKey), "");
  changeAll(again, RotationPhase::kDrop);
  for (auto& one : nodes) {
    auto now = pki::authoritiesOf(one.ca, kj::strArray(one.accepted, ""));
    EXPECT_EQ(now.trusted, rotation.newCa);
    EXPECT_EQ(now.behind, rotation.newByOld);
  }
  auto next = plan();
  EXPECT_FALSE(next.begun);
  changeAll(next, RotationPhase::kAccept);
  EXPECT_EQ(nodes[2].accepted.size(), 2u) << "of the rotation before nothing stays";
}

// Catches: a CA that is changed at another path than its own, or that needs keys which only the
// machine's CA has; cross-signed CAs that stay.
TEST_F(RotationPlanTest, TheAggregatorsAndEtcdsGoThroughTheSamePhases) {
  for (auto one : {RotatedCa::kAggregator, RotatedCa::kEtcd}) {
    which = one;
    nodes.clear();
    nodes.add(node("10.0.0.2", true));
    nodes.add(node("10.0.0.3", true));
    auto rotation = plan();
    change(nodes[0], rotation, RotationPhase::kAccept);
    auto again = plan();
    EXPECT_TRUE(again.begun);
    changeAll(again, RotationPhase::kAccept);
    auto now = pki::authoritiesOf(nodes[0].ca, kj::strArray(nodes[0].accepted, ""));
    EXPECT_EQ(now.trusted, kj::str(first.certificate, again.newCa));
    change(nodes[1], again, RotationPhase::kIssue);
    EXPECT_EQ(nodes[1].ca, again.newCa);
    EXPECT_EQ(kj::StringPtr(nodes[1].key), kj::StringPtr(again.newKey));
    auto issuing = plan();
    EXPECT_EQ(issuing.phase, RotationPhase::kIssue);
    changeAll(issuing, RotationPhase::kIssue);
    change(nodes[0], issuing, RotationPhase::kDrop);
    EXPECT_EQ(nodes[0].accepted.size(), 0u);
    auto dropping = plan();
    EXPECT_EQ(dropping.phase, RotationPhase::kDrop);
    EXPECT_EQ(dropping.oldCa, first.certificate);
    changeAll(dropping, RotationPhase::kDrop);
    EXPECT_FALSE(plan().begun);
    nodes[1].key = pki::Pem();
    EXPECT_NE(refusal().find(one == RotatedCa::kEtcd ? "lacks the key of cluster.etcd.ca"
                                                     : "lacks the key of cluster.aggregatorCA"),
              std::string::npos)
        << refusal();
  }
}

// Catches: a second run that creates a third CA, confuses the two, or goes back.
TEST_F(RotationPlanTest, ARunThatWasCutOffIsFoundInTheConfigs) {
  auto rotation = plan();
  change(nodes[0], rotation, RotationPhase::kAccept);
  auto again = plan();
  EXPECT_EQ(again.phase, RotationPhase::kAccept);
  EXPECT_TRUE(again.begun);
  EXPECT_NE(again.newCa, rotation.newCa) << "its key is lost";
  changeAll(again, RotationPhase::kAccept);
  for (auto& one : nodes) {
    EXPECT_EQ(one.accepted.size(), 2u) << "the CA that came to nothing stays";
  }
  change(nodes[0], again, RotationPhase::kIssue);
  auto issuing = plan();
  EXPECT_EQ(issuing.phase, RotationPhase::kIssue);
  EXPECT_EQ(issuing.newCa, again.newCa);
  EXPECT_EQ(issuing.oldCa, first.certificate);
  EXPECT_EQ(kj::StringPtr(issuing.newKey), kj::StringPtr(again.newKey));
  changeAll(issuing, RotationPhase::kIssue);
  // Workers drop it first.
  change(nodes[2], issuing, RotationPhase::kDrop);
  EXPECT_EQ(plan().phase, RotationPhase::kDrop);
  change(nodes[0], issuing, RotationPhase::kDrop);
  auto dropping = plan();
  EXPECT_EQ(dropping.phase, RotationPhase::kDrop);
  EXPECT_EQ(dropping.newCa, again.newCa);
  EXPECT_EQ(dropping.oldCa, first.certificate);
  changeAll(dropping, RotationPhase::kDrop);
  for (auto& one : nodes) EXPECT_EQ(one.accepted.size(), 0u);
}

// Catches: a CA that the operator accepts for another purpose, removed by a rotation or taken for a
// rotation's CA.
TEST_F(RotationPlanTest, OtherAcceptedCasStay) {
  auto older = pki::makeAuthority({.organization = "talos", .notBefore = kNow - 900 * kj::DAYS});
  for (auto& one : nodes) one.accepted.add(kj::str(older.certificate));
  auto rotation = plan();
  EXPECT_FALSE(rotation.begun);
  for (auto phase : {RotationPhase::kAccept, RotationPhase::kIssue, RotationPhase::kDrop}) {
    changeAll(rotation, phase);
    EXPECT_EQ(nodes[2].accepted[0], older.certificate);
  }
  EXPECT_EQ(nodes[2].accepted.size(), 1u);
}

// Catches: a worker that keeps the hash of the old CA forever.
TEST_F(RotationPlanTest, TheHashOfAWorkerIsReplaced) {
  nodes[2].ca = kj::str();
  nodes[2].caHash = pki::authorityHash(first.certificate);
  auto rotation = plan();
  changeAll(rotation, RotationPhase::kAccept);
  EXPECT_EQ(nodes[2].accepted.size(), 2u);
  changeAll(rotation, RotationPhase::kIssue);
  EXPECT_EQ(nodes[2].caHash, pki::authorityHash(rotation.newCa));
  EXPECT_EQ(nodes[2].ca, "");
  EXPECT_EQ(plan().phase, RotationPhase::kDrop);
}

// Catches: a rotation that begins although it cannot end, or mixes clusters.
TEST_F(RotationPlanTest, NodesThatDoNotFitAreRefusedBeforeAnything) {
  auto has = [&](const char* text) { return refusal().find(text) != std::string::npos; };
  nodes[2].persists = false;
  EXPECT_TRUE(has("10.0.0.5: its config has persist: false")) << refusal();
  nodes[2].persists = true;
  auto other = pki::makeAuthority({.organization = "talos", .notBefore = kNow - 1 * kj::DAYS});
  nodes[1].ca = kj::str(other.certificate);
  EXPECT_TRUE(has("10.0.0.3: the key of its config is not that of machine.ca")) << refusal();
  nodes[1].key = other.key.clone();
  EXPECT_TRUE(has("10.0.0.2: its CA sha256:")) << refusal();
  auto third = pki::makeAuthority({.organization = "talos"});
  nodes.add(node("10.0.0.4", true));
  nodes.back().ca = kj::str(third.certificate);
  nodes.back().key = third.key.clone();
  EXPECT_TRUE(has("the control-plane nodes have more than two CAs:\n  10.0.0.2: sha256:"))
      << refusal();
  nodes[2].ca = kj::str();
  EXPECT_TRUE(has("10.0.0.5: its config has neither machine.ca nor machine.caHash")) << refusal();
  nodes.clear();
  nodes.add(node("10.0.0.5", false));
  EXPECT_TRUE(has("none of the nodes is a control-plane node")) << refusal();
}

// Catches: a worker whose CAs determine the old CA, the progress of the rotation, or its existence;
// a worker with other CAs that is not named.
TEST_F(RotationPlanTest, AWorkerDecidesNeitherTheCasNorThePhase) {
  auto older = pki::makeAuthority({.organization = "talos", .notBefore = kNow - 900 * kj::DAYS});
  auto newer = pki::makeAuthority({.organization = "talos", .notBefore = kNow - 1 * kj::DAYS});
  auto& worker = nodes[2];
  auto invent = [&](const pki::CertificateAndKey& ca, kj::StringPtr own) {
    worker.accepted.clear();
    worker.accepted.add(kj::str(ca.certificate));
    worker.accepted.add(pki::crossSign(ca.certificate, ca.key, own));
  };
  auto expectOwn = [&](const Rotation& plan) {
    EXPECT_EQ(plan.phase, RotationPhase::kAccept);
    EXPECT_FALSE(plan.begun);
    EXPECT_EQ(plan.oldCa, first.certificate);
  };
  for (auto invented : {&older, &newer}) {
    invent(*invented, first.certificate);
    expectOwn(plan());
    worker.ca = kj::str(invented->certificate);
    EXPECT_NE(refusal().find("10.0.0.5: its CA sha256:"), std::string::npos) << refusal();
    worker.ca = kj::str(first.certificate);
  }
  worker.accepted.clear();
  worker.accepted.add(kj::str("-----BEGIN CERTIFICATE-----\nxxx\n-----END CERTIFICATE-----\n"));
  expectOwn(plan());
  worker.accepted.clear();
  worker.ca = kj::str("-----BEGIN CERTIFICATE-----\nxxx\n-----END CERTIFICATE-----\n");
  EXPECT_NE(refusal().find("10.0.0.5: the CA of its config (machine.ca) is not valid"),
            std::string::npos)
      << refusal();
}

// Catches: a worker in a later or earlier phase that the next run does not bring to the cluster's
// phase; a worker that makes control-plane nodes accept the old CA again; a worker that would be
// excluded.
TEST_F(RotationPlanTest, WorkersAreBroughtToThePhaseOfTheControlPlane) {
  auto rotation = plan();
  changeAll(rotation, RotationPhase::kAccept);
  auto behind = kj::heapString(nodes[2].ca);
  change(nodes[0], rotation, RotationPhase::kIssue);
  change(nodes[1], rotation, RotationPhase::kIssue);
  EXPECT_EQ(plan().phase, RotationPhase::kIssue);
  auto accepted = kj::mv(nodes[2].accepted);
  nodes[2].accepted = {};
  EXPECT_NE(refusal().find("10.0.0.5: its CA sha256:"), std::string::npos)
      << "it verifies no certificate of the new CA: " << refusal();
  nodes[2].accepted = kj::mv(accepted);
  auto issuing = plan();
  EXPECT_EQ(rotationPatch(nodes[0], issuing, RotationPhase::kIssue), nullptr);
  change(nodes[2], issuing, RotationPhase::kIssue);
  EXPECT_EQ(plan().phase, RotationPhase::kDrop);
  change(nodes[0], issuing, RotationPhase::kDrop);
  nodes[2].ca = kj::mv(behind);
  EXPECT_NE(refusal().find("10.0.0.5: its CA sha256:"), std::string::npos) << refusal();
  // A rotation that is complete for the control plane is not continued.
  change(nodes[1], issuing, RotationPhase::kDrop);
  EXPECT_NE(refusal().find("10.0.0.5: its CA sha256:"), std::string::npos) << refusal();
  nodes[2].ca = kj::str(rotation.newCa);
  EXPECT_FALSE(plan().begun);
}

struct WorkersToken {
  const char* name;
  kj::StringPtr token;
  rpc::Etcd::JoinToken::State state;  // state of kSpentToken
  bool ofItsKey;                      // the token was spent for the worker's key
  const char* error;                  // empty: not refused
};
using TokenState = rpc::Etcd::JoinToken::State;
const WorkersToken kWorkersTokens[] = {
    {"the control plane's", kPlanesToken, TokenState::REVOKED, false, ""},
    {"an old one", "zzzzzz.0123456789abcdef", TokenState::USED, true, "not that of the control"},
    {"none", "", TokenState::USED, true, "no machine.token"},
    {"joined", kSpentToken, TokenState::USED, true, ""},
    {"joined by another", kSpentToken, TokenState::USED, false, "k3x9qf was used by w9 10.0.0.9"},
    {"not joined yet", kSpentToken, TokenState::UNUSED, false, "join token k3x9qf is unused"},
    {"expired", kSpentToken, TokenState::EXPIRED, false, "join token k3x9qf has expired"},
    {"revoked", kSpentToken, TokenState::REVOKED, true, "join token k3x9qf was revoked"},
    {"unknown", "join-aaaaaa.5v0c8m2w7t1rj4ne", TokenState::USED, true, "no join token aaaaaa"},
    {"not a token", "join-me", TokenState::USED, true, "not a valid join token"},
};

// Catches: a rotation that stops half-way at a worker to which trustd issues no certificate, and
// that finally excludes this worker; a worker that is refused although trustd issues its
// certificate.
TEST_F(RotationPlanTest, WorkersWithoutAGoodTokenAreRefusedBeforeAnything) {
  auto shown = pki::issue(first.certificate, first.key, {.commonName = "w1"});
  for (auto& one : kWorkersTokens) {
    nodes[2].token = pki::Pem(kj::str(one.token));
    nodes[2].certificate = kj::str(shown.certificate);
    tokens.clear();
    tokens.add(ListedToken{kj::str("k3x9qf"), one.state, kj::str("w9 10.0.0.9"),
                           one.ofItsKey ? pki::fingerprint(shown.certificate) : kj::str("other")});
    auto text = refusal();
    if (*one.error == 0) {
      EXPECT_EQ(text, "not refused") << one.name;
      continue;
    }
    EXPECT_NE(text.find("\n  10.0.0.5: "), std::string::npos) << one.name << ": " << text;
    EXPECT_NE(text.find(one.error), std::string::npos) << one.name << ": " << text;
    EXPECT_NE(text.find("set their machine.token to"), std::string::npos) << text;
  }
  // trustd signs with the machine's CA only.
  which = RotatedCa::kKubernetes;
  EXPECT_EQ(refusal(), "not refused");
}

// Catches: a continued run that drops the old CA although a worker has no certificate of the new
// one; a worker that is refused for a token which it no longer needs.
TEST_F(RotationPlanTest, AWorkerThatGotNoCertificateIsNotShutOut) {
  auto rotation = plan();
  changeAll(rotation, RotationPhase::kAccept);
  nodes[2].token = pki::Pem(kj::str("zzzzzz.0123456789abcdef"));
  nodes[2].certificate = pki::issue(first.certificate, first.key, {}).certificate;
  changeAll(rotation, RotationPhase::kIssue);
  EXPECT_NE(refusal().find("10.0.0.5: its machine.token is not"), std::string::npos) << refusal();
  nodes[2].certificate = pki::issue(rotation.newCa, rotation.newKey, {}).certificate;
  EXPECT_EQ(plan().phase, RotationPhase::kDrop);
}

// Catches: a phase that counts as complete while a node still serves as before.
TEST_F(RotationPlanTest, CertificatesSayWhatIsInEffect) {
  auto rotation = plan();
  pki::CertificateAndKey next{kj::str(rotation.newCa), rotation.newKey.clone()};
  auto leafOf = [](const pki::CertificateAndKey& ca) {
    return pki::issue(ca.certificate, ca.key, {.commonName = "node"}).certificate;
  };
  auto oldLeaf = leafOf(first), newLeaf = leafOf(next);
  auto both = kj::str(first.certificate, next.certificate);
  auto error = [&](RotationPhase phase, kj::StringPtr trusted, kj::String server) {
    return std::string(phaseError(rotation, phase, trusted, server).orDefault("none").cStr());
  };
  using P = RotationPhase;
  EXPECT_EQ(error(P::kAccept, first.certificate, kj::str(oldLeaf, rotation.oldByNew)),
            "it does not accept the new CA yet");
  EXPECT_EQ(error(P::kAccept, both, kj::str(oldLeaf)),
            "clients of the other CA cannot verify its certificate yet");
  EXPECT_EQ(error(P::kAccept, both, kj::str(oldLeaf, rotation.oldByNew)), "none");
  EXPECT_EQ(error(P::kIssue, both, kj::str(oldLeaf, rotation.oldByNew)),
            "its certificate is not of the new CA yet");
  EXPECT_EQ(error(P::kIssue, next.certificate, kj::str(newLeaf, rotation.newByOld)),
            "it does not accept the old CA");
  EXPECT_EQ(error(P::kIssue, both, kj::str(newLeaf, rotation.newByOld)), "none");
  EXPECT_EQ(error(P::kDrop, both, kj::str(newLeaf)), "it accepts the old CA still");
  EXPECT_EQ(error(P::kDrop, next.certificate, kj::str(newLeaf)), "none");
}

}  // namespace talos::talosctl
