// Tests the progress of a rotation of the key of Secrets and its remaining work, by the configs.
#include "talosctl/rotate-ca/secrets-key-plan.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/config/rules/encryption-keys.h"
#include "talosctl/config/patches.h"

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kOld = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="_kj,
                        kNext = "HB0eHyAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs="_kj,
                        kThird = "Oj0eHyAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs="_kj,
                        kFourth = "fB0eHyAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs="_kj;

struct SecretsKeyPlan : ::testing::Test {
  ~SecretsKeyPlan() noexcept override {}
  kj::Vector<RotatedNode> nodes;

  static RotatedNode keyed(kj::StringPtr address, bool controlPlane, kj::StringPtr secretbox,
                           kj::StringPtr aescbc) {
    RotatedNode node;
    node.address = kj::str(address);
    node.controlPlane = controlPlane;
    node.secretbox = pki::Pem(kj::str(secretbox));
    node.aescbc = pki::Pem(kj::str(aescbc));
    return node;
  }
  void make(kj::StringPtr secretbox, kj::StringPtr aescbc) {
    nodes.clear();
    nodes.add(keyed("10.0.0.2", true, secretbox, aescbc));
    nodes.add(keyed("10.0.0.3", true, secretbox, aescbc));
    nodes.add(keyed("10.0.0.5", false, "", ""));
  }
  static void accept(RotatedNode& node, std::initializer_list<kj::StringPtr> keys) {
    node.acceptedKeys.clear();
    for (auto key : keys) node.acceptedKeys.add(pki::Pem(kj::str(key)));
  }
  Rotation planned(kj::StringPtr fresh) { return planSecretsKey(nodes, fresh); }
  std::string refusal() {
    auto failure = kj::runCatchingExceptions([&] { planned(kNext); });
    KJ_IF_MAYBE (e, failure) return messageOf(*e).cStr();
    return "not refused";
  }
  static kj::Vector<config::SecretsKey> keysOf(const RotatedNode& node) {
    kj::Vector<kj::StringPtr> accepted;
    for (auto& one : node.acceptedKeys) accepted.add(kj::StringPtr(one));
    return config::secretsKeys(kj::StringPtr(node.secretbox), kj::StringPtr(node.aescbc), accepted);
  }
  // Applies the patch to a config of the node, and reads the result back.
  static void patch(RotatedNode& node, const Rotation& rotation, RotationPhase phase) {
    auto made = secretsKeyPatch(node, rotation, phase);
    if (made == nullptr) return;
    auto line = [](kj::StringPtr key, kj::StringPtr value) {
      return value.size() > 0 ? kj::str("  ", key, ": ", value, "\n") : kj::String();
    };
    kj::Vector<kj::StringPtr> accepted;
    for (auto& one : node.acceptedKeys) accepted.add(kj::StringPtr(one));
    auto text = kj::str(
        "version: v1alpha1\nmachine:\n  type: controlplane\ncluster:\n  clusterName: a\n",
        line("secretboxEncryptionSecret", kj::StringPtr(node.secretbox)),
        line("aescbcEncryptionSecret", kj::StringPtr(node.aescbc)),
        accepted.empty()
            ? kj::String()
            : kj::str("  acceptedEncryptionSecrets: [", kj::strArray(accepted, ", "), "]\n"));
    kj::Vector<Patch> patches;
    patches.add(Patch{kj::str("test"), kj::str(KJ_ASSERT_NONNULL(made))});
    auto parsed = config::parse(applyPatches(text, "test", patches), "test");
    auto cluster = parsed.get().getCluster();
    node.secretbox = pki::Pem(kj::str(cluster.getSecretboxEncryptionSecret()));
    node.aescbc = pki::Pem(kj::str(cluster.getAescbcEncryptionSecret()));
    node.acceptedKeys.clear();
    for (auto one : cluster.getAcceptedEncryptionSecrets()) {
      node.acceptedKeys.add(pki::Pem(kj::str(one)));
    }
    EXPECT_EQ(secretsKeyPatch(node, rotation, phase), nullptr) << "the patch is not the whole";
  }
  // Checks that all control-plane nodes can read the Secrets of each other.
  void checkReadable(const char* when) {
    for (auto& writer : nodes) {
      if (!writer.controlPlane) continue;
      auto own = keysOf(writer);
      for (auto& reader : nodes) {
        if (!reader.controlPlane) continue;
        bool reads = false;
        for (auto& key : keysOf(reader)) {
          reads = reads || (key.name == own[0].name && key.secret == own[0].secret &&
                            key.provider == own[0].provider);
        }
        EXPECT_TRUE(reads) << when << ": " << reader.address.cStr() << " cannot read "
                           << own[0].name.cStr() << " of " << writer.address.cStr();
      }
    }
  }
  // Interrupts every run after each node, and continues with a run that would create another key.
  void rotateTo(kj::StringPtr key) {
    bool first = true;
    for (auto phase : {RotationPhase::kAccept, RotationPhase::kIssue, RotationPhase::kDrop}) {
      for (auto& node : nodes) {
        auto rotation = planned(first ? key : kThird);
        EXPECT_EQ(kj::StringPtr(rotation.newKey), key) << phaseName(phase).cStr();
        EXPECT_EQ(rotation.begun, !first);
        EXPECT_LE(rotation.phase, phase);
        if (node.controlPlane) first = false;
        patch(node, rotation, phase);
        checkReadable(phaseName(phase).cStr());
        if (phase == RotationPhase::kDrop && &node == &nodes[1]) return;
      }
    }
  }
};

// Catches: a node that writes with a key that another node cannot read, at any point where a run
// may end; a run that does not find the key or the phase of an earlier run; an old key that stays.
TEST_F(SecretsKeyPlan, EveryStateOfARotationReadsWhatAnyNodeWrites) {
  for (auto start : {0, 1, 2}) {
    make(start == 0 ? ""_kj : kOld, start == 1 ? ""_kj : "AAECAwQFBgcICQoLDA0ODw=="_kj);
    for (auto key : {kNext, kFourth}) {
      rotateTo(key);
      for (auto& node : nodes) {
        if (!node.controlPlane) continue;
        EXPECT_EQ(kj::StringPtr(node.secretbox), key);
        EXPECT_EQ(kj::StringPtr(node.aescbc), ""_kj);
        ASSERT_EQ(node.acceptedKeys.size(), 1u);
        EXPECT_EQ(writingKey(node), config::ownKeyName(key));
      }
      auto next = planned(kThird);
      EXPECT_FALSE(next.begun);
      EXPECT_EQ(kj::StringPtr(next.newKey), kThird);
    }
  }
}

// Catches: nodes whose keys differ from the start, whose Secrets a rotation would make unreadable
// for good.
TEST_F(SecretsKeyPlan, RefusesKeysThatDiffer) {
  make("", "");
  EXPECT_NE(refusal().find("10.0.0.2: its config has neither"), std::string::npos) << refusal();
  make(kOld, "");
  nodes[1].secretbox = pki::Pem(kj::str(kThird));
  EXPECT_NE(refusal().find("10.0.0.3: its key of Secrets is not that of 10.0.0.2"),
            std::string::npos)
      << refusal();
  make(kOld, "");
  accept(nodes[0], {kNext, kNext});
  accept(nodes[1], {kThird, kThird});
  EXPECT_NE(refusal().find("another new key"), std::string::npos) << refusal();
  make(kOld, "");
  nodes[0].secretbox = pki::Pem(kj::str(kNext));
  accept(nodes[0], {kOld, kNext});
  EXPECT_NE(refusal().find("10.0.0.3: it does not accept the key"), std::string::npos) << refusal();
  make(kOld, "");
  nodes[0].persists = false;
  EXPECT_NE(refusal().find("persist"), std::string::npos) << refusal();
}

struct KeyByHand {
  const char* name;
  kj::StringPtr secretbox, aescbc;
  std::initializer_list<kj::StringPtr> accepted;
  const char* advice;
};
const KeyByHand kKeysByHand[] = {
    {"replaced", kNext, "", {kOld}, "add cluster.secretboxEncryptionSecret to the end of the list"},
    {"replaced, with a name of its own", kNext, "", {kNext, kOld}, "to the end of the list"},
    {"replaced twice", kNext, "", {kThird, kOld}, "to the end of the list"},
    {"to come", kOld, "", {kNext}, "if nothing is encrypted with it, remove it"},
    {"aescbc in its place", "", "AAECAwQFBgcICQoLDA0ODw==", {kOld}, "have Secrets written again"},
};

// Catches: an old key, accepted while it was replaced by hand, that writes again while the new key
// is dropped.
TEST_F(SecretsKeyPlan, AKeyThatIsAcceptedByHandIsNotTheNewOne) {
  for (auto& one : kKeysByHand) {
    make(one.secretbox, one.aescbc);
    for (auto& node : nodes) {
      if (node.controlPlane) accept(node, one.accepted);
    }
    auto text = refusal();
    EXPECT_EQ(text.find("10.0.0.2: it does not write with the last of its "
                        "cluster.acceptedEncryptionSecrets"),
              0u)
        << one.name << ": " << text;
    EXPECT_NE(text.find(one.advice), std::string::npos) << one.name << ": " << text;
  }
  // Follows the advice of the message.
  make(kNext, "");
  accept(nodes[0], {kOld, kNext});
  EXPECT_EQ(refusal().find("10.0.0.3: it does not write with the last"), std::string::npos);
  accept(nodes[1], {kOld});
  EXPECT_EQ(refusal().find("10.0.0.3: it does not write with the last"), 0u) << refusal();
  accept(nodes[1], {kOld, kNext});
  auto rotation = planned(kThird);
  EXPECT_EQ(kj::StringPtr(rotation.newKey), kNext);
  EXPECT_EQ(rotation.phase, RotationPhase::kIssue);
}

// Catches: a key that is listed twice and given to an API server twice, or that changes the Secrets
// written with the present key; a rotation with a shortened list that is refused although another
// node shows its new key.
TEST_F(SecretsKeyPlan, TheNewKeyIsThereTwiceUntilItWrites) {
  make(kOld, "");
  auto rotation = planned(kNext);
  patch(nodes[0], rotation, RotationPhase::kAccept);
  ASSERT_EQ(nodes[0].acceptedKeys.size(), 2u);
  EXPECT_EQ(writingKey(nodes[0]), "key2"_kj);
  auto names = KJ_MAP(key, keysOf(nodes[0])) {
    return kj::str(key.name, key.secret == kNext ? " new" : "");
  };
  EXPECT_EQ(kj::strArray(names, ", "), kj::str("key2, ", config::ownKeyName(kOld), ", ",
                                               config::ownKeyName(kNext), " new, key2 new"));
  accept(nodes[1], {kNext});
  rotation = planned(kThird);
  EXPECT_EQ(kj::StringPtr(rotation.newKey), kNext);
  patch(nodes[1], rotation, RotationPhase::kAccept);
  EXPECT_EQ(nodes[1].acceptedKeys.size(), 2u);
  patch(nodes[0], rotation, RotationPhase::kIssue);
  accept(nodes[1], {kNext});
  rotation = planned(kThird);
  EXPECT_EQ(rotation.phase, RotationPhase::kIssue);
  EXPECT_EQ(kj::StringPtr(rotation.newKey), kNext);
  patch(nodes[1], rotation, RotationPhase::kIssue);
  checkReadable("issue");
}

// Catches: an API server that counts as having reached the end of a phase.
TEST_F(SecretsKeyPlan, KeysOfAnApiServer) {
  make("", "AAECAwQFBgcICQoLDA0ODw==");
  auto rotation = planned(kNext);
  auto prefix = newPrefix(rotation);
  auto error = [&](RotationPhase phase, std::initializer_list<kj::StringPtr> list) {
    auto keys = KJ_MAP(key, list) {
      return kj::str(key);
    };
    return secretsKeyError(rotation, phase, keys).orDefault("none"_kj);
  };
  auto old = "k8s:enc:aescbc:v1:key1:"_kj, same = "k8s:enc:secretbox:v1:key2:"_kj;
  using enum RotationPhase;
  EXPECT_EQ(error(kAccept, {old}), "its API server has not been given the new key yet"_kj);
  EXPECT_EQ(error(kAccept, {old, prefix, same}), "none"_kj);
  EXPECT_EQ(error(kIssue, {old, prefix, same}),
            "its API server does not write with the new key yet"_kj);
  EXPECT_EQ(error(kIssue, {prefix, old, same}), "none"_kj);
  EXPECT_EQ(error(kDrop, {prefix, old, same}), "its API server has the old key still"_kj);
  EXPECT_EQ(error(kDrop, {prefix, same}), "none"_kj);
}

}  // namespace
}  // namespace talos::talosctl
