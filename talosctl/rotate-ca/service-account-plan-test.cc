// Tests the progress of a rotation of the key of service accounts and its remaining work, by the
// configs.
#include "talosctl/rotate-ca/service-account-plan.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/tls/public-key.h"
#include "talosctl/config/patches.h"

namespace talos::talosctl {
namespace {

struct ServiceAccountPlan : ::testing::Test {
  ~ServiceAccountPlan() noexcept override {}
  kj::Vector<RotatedNode> nodes;
  pki::Pem first = pki::makeKey(pki::KeyType::kEcdsaP256);
  unsigned made = 0;

  static void setKey(RotatedNode& node, kj::StringPtr key) {
    node.key = pki::Pem(kj::str(key));
    node.ca = pki::publicKeyOf(key);
  }
  void SetUp() override {
    for (auto address : {"10.0.0.2"_kj, "10.0.0.3"_kj, "10.0.0.4"_kj, "10.0.0.5"_kj}) {
      RotatedNode node;
      node.address = kj::str(address);
      node.controlPlane = address != "10.0.0.5"_kj;
      if (node.controlPlane) setKey(node, first);
      nodes.add(kj::mv(node));
    }
  }
  Rotation planned() {
    return planServiceAccountKey(nodes, [this](pki::KeyType type) {
      ++made;
      return pki::makeKey(type);
    });
  }
  std::string refusal() {
    auto failure = kj::runCatchingExceptions([&] { planned(); });
    KJ_IF_MAYBE (e, failure) return messageOf(*e).cStr();
    return "not refused";
  }
  // Applies the patch to a config of the node, and reads the result back.
  static void patch(RotatedNode& node, const Rotation& rotation, RotationPhase phase) {
    auto wanted = serviceAccountPatch(node, rotation, phase);
    if (wanted == nullptr) return;
    auto items = KJ_MAP(one, node.accepted) {
      return kj::str("{key: ", kj::encodeBase64(one.asBytes()), "}");
    };
    auto text = kj::str(
        "version: v1alpha1\nmachine:\n  type: controlplane\ncluster:\n  serviceAccount: {key: ",
        kj::encodeBase64(node.key.bytes()), "}\n  acceptedServiceAccountKeys: [",
        kj::strArray(items, ", "), "]\n");
    kj::Vector<Patch> patches;
    patches.add(Patch{kj::str("test"), kj::str(KJ_ASSERT_NONNULL(wanted))});
    auto parsed = config::parse(applyPatches(text, "test", patches), "test");
    auto cluster = parsed.get().getCluster();
    setKey(node, kj::heapString(cluster.getServiceAccount().getKey().asChars()));
    node.accepted.clear();
    for (auto one : cluster.getAcceptedServiceAccountKeys()) {
      node.accepted.add(kj::heapString(one.getKey().asChars()));
    }
    EXPECT_EQ(serviceAccountPatch(node, rotation, phase), nullptr) << "the patch is not the whole";
  }
  static bool accepts(const RotatedNode& node, kj::StringPtr publicKey) {
    if (node.ca == publicKey) return true;
    for (auto& one : node.accepted) {
      if (one == publicKey) return true;
    }
    return false;
  }
  // Checks that every API server accepts the tokens of each other, and before `drop` earlier
  // tokens.
  void checkAccepted(RotationPhase phase) {
    for (auto& reader : nodes) {
      if (!reader.controlPlane) continue;
      for (auto& signer : nodes) {
        EXPECT_TRUE(!signer.controlPlane || accepts(reader, signer.ca))
            << phaseName(phase).cStr() << ": " << reader.address.cStr() << " refuses tokens of "
            << signer.address.cStr();
      }
      if (phase != RotationPhase::kDrop) {
        EXPECT_TRUE(accepts(reader, pki::publicKeyOf(first)));
      }
    }
  }
};

// Catches: an API server that refuses a token which another one has just signed, at any point where
// a run may end; a run that creates another key while one signs already, or does not find the
// phase; an old key that stays, or a worker with a key.
TEST_F(ServiceAccountPlan, EveryStateOfARotationAcceptsWhatAnyNodeSigns) {
  kj::String signing;
  for (auto phase : {RotationPhase::kAccept, RotationPhase::kIssue, RotationPhase::kDrop}) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      auto before = made;
      auto rotation = planned();
      bool issued = phase != RotationPhase::kAccept && !(phase == RotationPhase::kIssue && i == 0);
      EXPECT_EQ(rotation.begun, phase != RotationPhase::kAccept || i > 0);
      EXPECT_EQ(made - before, issued ? 0u : 1u);
      if (issued) {
        EXPECT_EQ(rotation.newCa, signing);
        EXPECT_EQ(rotation.oldCa, pki::publicKeyOf(first));
        EXPECT_EQ(rotation.phase, phase == RotationPhase::kDrop && i > 0 ? RotationPhase::kDrop
                                                                         : RotationPhase::kIssue);
      } else {
        // Each run has another new key, so all nodes have to accept it first.
        EXPECT_EQ(rotation.phase, RotationPhase::kAccept);
        for (auto& node : nodes) patch(node, rotation, RotationPhase::kAccept);
        checkAccepted(RotationPhase::kAccept);
        signing = kj::str(rotation.newCa);
      }
      if (phase == RotationPhase::kDrop && i == 2) break;
      patch(nodes[i], rotation, phase);
      checkAccepted(phase);
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(nodes[i].accepted.size(), 0u);
    EXPECT_EQ(nodes[i].ca, signing);
  }
  EXPECT_EQ(nodes[3].ca, "");
  auto last = planned();
  patch(nodes[2], last, RotationPhase::kDrop);
  EXPECT_FALSE(planned().begun) << "a finished rotation is taken for one that was cut off";
}

// Catches: nodes whose keys differ from the start, one of which would be lost.
TEST_F(ServiceAccountPlan, RefusesKeysThatDiffer) {
  auto other = pki::makeKey(pki::KeyType::kEcdsaP256);
  setKey(nodes[1], other);
  EXPECT_NE(refusal().find("10.0.0.3: its key of service accounts is not that of 10.0.0.2; "),
            std::string::npos)
      << refusal();
  // A node that has issued, and a node that does not know its key.
  nodes[1].accepted.add(pki::publicKeyOf(first));
  nodes[1].accepted.add(pki::publicKeyOf(other));
  EXPECT_NE(refusal().find("10.0.0.2: its key of service accounts is not that of 10.0.0.3, and "),
            std::string::npos)
      << refusal();
  setKey(nodes[1], first);
  nodes[1].accepted.clear();
  nodes[2].persists = false;
  EXPECT_NE(refusal().find("10.0.0.4: its config has persist: false"), std::string::npos);
  nodes[2].persists = true;
  nodes[2].ca = kj::str();
  EXPECT_NE(refusal().find("10.0.0.4: its config has no cluster.serviceAccount.key"),
            std::string::npos);
}

// Catches: a new key whose type verifiers outside the cluster do not support.
TEST_F(ServiceAccountPlan, ANewKeyIsOfTheOldOnesType) {
  auto rsa = pki::makeKey(pki::KeyType::kRsa4096);
  for (auto& node : nodes) {
    if (node.controlPlane) setKey(node, rsa);
  }
  kj::Maybe<pki::KeyType> asked;
  planServiceAccountKey(nodes, [&](pki::KeyType type) {
    asked = type;
    return pki::makeKey(pki::KeyType::kEcdsaP256);
  });
  EXPECT_TRUE(KJ_ASSERT_NONNULL(asked) == pki::KeyType::kRsa4096);
}

// Catches: a node that counts as having reached the end of a phase.
TEST_F(ServiceAccountPlan, KeysOfAnApiServer) {
  auto rotation = planned();
  auto key = pki::tokenKeyId(rotation.newCa), old = pki::tokenKeyId(pki::publicKeyOf(first));
  auto error = [&](RotationPhase phase, std::initializer_list<kj::StringPtr> server,
                   kj::StringPtr manager) {
    auto keys = KJ_MAP(one, server) {
      return kj::str(one);
    };
    auto signs = kj::arr(kj::str(manager));
    return serviceAccountError(rotation, phase, keys, signs).orDefault("none"_kj);
  };
  using enum RotationPhase;
  EXPECT_EQ(error(kAccept, {old}, old), "its API server has not been given the new key yet"_kj);
  EXPECT_EQ(error(kAccept, {old, key}, old), "none"_kj);
  EXPECT_EQ(error(kIssue, {old, key}, old), "its API server does not sign with the new key yet"_kj);
  EXPECT_EQ(error(kIssue, {key, old}, old),
            "its controller manager does not sign with the new key yet"_kj);
  EXPECT_EQ(error(kIssue, {key, old}, key), "none"_kj);
  EXPECT_EQ(error(kDrop, {key, old}, key), "its API server accepts the old key still"_kj);
  EXPECT_EQ(error(kDrop, {key}, key), "none"_kj);
}

}  // namespace
}  // namespace talos::talosctl
