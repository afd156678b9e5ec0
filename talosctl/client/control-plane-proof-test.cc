// Tests the evidence that nodes belong to the control plane.
#include "talosctl/client/control-plane-proof.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>

#include "common/base/error.h"

namespace talos::talosctl {
namespace {

constexpr auto kThen = kj::UNIX_EPOCH + 20'000 * kj::DAYS;

struct ProofTest : public ::testing::Test {
  ~ProofTest() noexcept override {}
  pki::CertificateAndKey before = made(0), present = made(100), next = made(200),
                         foreign = made(300);

  static pki::CertificateAndKey made(int day) {
    return pki::makeAuthority({.organization = "talos", .notBefore = kThen + day * kj::DAYS});
  }
  // Returns the certificate of `other` as signed by `by`.
  static kj::String crossed(const pki::CertificateAndKey& other, const pki::CertificateAndKey& by) {
    return pki::crossSign(by.certificate, by.key, other.certificate);
  }
  // Returns a node with the CA `own` that also accepts another CA, as a rotation leaves it;
  // nullptr: no other CA.
  static MachineAuthority node(const pki::CertificateAndKey& own,
                               const pki::CertificateAndKey* other, bool key = true) {
    MachineAuthority node{
        .ca = kj::str(own.certificate), .key = key ? own.key.clone() : pki::Pem(), .accepted = {}};
    if (other == nullptr) return node;
    node.accepted.add(kj::str(other->certificate));
    node.accepted.add(crossed(own, *other));
    return node;
  }
};

}  // namespace

// Catches: a node that counts as a control-plane node because of public certificates, or of a
// self-made key; a control-plane node that is refused.
TEST_F(ProofTest, OnlyTheKeyOfAKnownCaIsEvidence) {
  ControlPlaneProof proof(present.certificate);
  EXPECT_TRUE(proof.isHeldBy(node(present, nullptr)));
  EXPECT_FALSE(proof.isHeldBy(node(present, nullptr, false)));
  EXPECT_FALSE(proof.isHeldBy(node(foreign, nullptr)));
  auto mixed = node(present, nullptr);
  mixed.key = foreign.key.clone();
  EXPECT_FALSE(proof.isHeldBy(mixed));
  // The present CA has signed nothing that leads to this node's CA.
  EXPECT_FALSE(proof.isHeldBy(node(foreign, &before)));
  auto named = node(foreign, nullptr);
  named.accepted.add(kj::str(present.certificate));
  named.accepted.add(crossed(present, foreign));
  EXPECT_FALSE(proof.isHeldBy(named));
  MachineAuthority none;
  EXPECT_FALSE(proof.isHeldBy(none));
  none.ca = kj::str("-----BEGIN CERTIFICATE-----\nxxx\n-----END CERTIFICATE-----\n");
  none.key = pki::Pem(kj::str("xxx"));
  EXPECT_FALSE(proof.isHeldBy(none));
}

// Catches: a rotation that cannot continue with the client configuration of the old or the new CA.
TEST_F(ProofTest, NodesInEachPhaseOfARotationAreRecognized) {
  auto accepting = node(present, &next), issuing = node(next, &present),
       dropped = node(next, nullptr);
  for (bool old : {true, false}) {
    ControlPlaneProof proof(old ? present.certificate : next.certificate);
    for (int pass = 0; pass < 2; ++pass) {
      for (auto one : {&dropped, &accepting, &issuing}) proof.learn(*one);
    }
    EXPECT_TRUE(proof.isHeldBy(accepting)) << old;
    EXPECT_TRUE(proof.isHeldBy(issuing)) << old;
    EXPECT_TRUE(proof.isHeldBy(dropped)) << old;
    EXPECT_FALSE(proof.isHeldBy(node(foreign, nullptr)));
  }
}

// Catches: a key of a CA that was replaced because it leaked, accepted because the present CA has
// signed the old CA.
TEST_F(ProofTest, TheKeyOfAPredecessorIsNone) {
  ControlPlaneProof proof(present.certificate);
  proof.learn(node(present, nullptr));
  EXPECT_FALSE(proof.isHeldBy(node(before, &present)));
  auto later = node(before, &present);  // another certificate of the old key
  later.ca = pki::crossSign(foreign.certificate, foreign.key, before.certificate);
  EXPECT_FALSE(proof.isHeldBy(later));
  proof.learn(later);
  EXPECT_FALSE(proof.isHeldBy(node(before, nullptr)));
}

// Catches: a worker whose CAs are learned; a list that takes hours to verify.
TEST_F(ProofTest, AWorkerTeachesNothing) {
  ControlPlaneProof proof(present.certificate);
  auto worker = node(present, &foreign, false);
  proof.learn(worker);
  EXPECT_FALSE(proof.isHeldBy(node(foreign, nullptr)));
  kj::Vector<kj::String> items;
  for (int i = 0; i < 40; ++i) {
    items.add(kj::str("{crt: ", kj::encodeBase64(foreign.certificate.asBytes()), "}"));
  }
  auto text = kj::str("machine: {type: worker, acceptedCAs: [", kj::strArray(items, ", "), "]}");
  auto parsed = config::parse(text.asArray());
  auto failure = kj::runCatchingExceptions([&] { machineAuthorityOf(parsed.get()); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)),
            "its config accepts 40 CAs of one kind; use at most 32"_kj);
}

// Catches: a node that receives data of the control plane because its config claims to belong to
// it.
TEST_F(ProofTest, ANodeWithoutTheKeyIsRefusedByName) {
  auto refusal = [&](kj::StringPtr type, kj::StringPtr key) {
    auto text = kj::str("machine: {type: ", type,
                        ", ca: {crt: ", kj::encodeBase64(present.certificate.asBytes()),
                        ", key: \"", kj::encodeBase64(key.asBytes()), "\"}}");
    auto parsed = config::parse(text.asArray());
    auto failure = kj::runCatchingExceptions(
        [&] { requireControlPlane("10.0.0.5", parsed.get(), present.certificate); });
    return std::string(
        failure.map([](kj::Exception& e) { return messageOf(e); }).orDefault(nullptr).cStr());
  };
  EXPECT_EQ(refusal("controlplane", present.key), "");
  EXPECT_EQ(refusal("init", present.key), "");
  EXPECT_NE(refusal("controlplane", "")
                .find("10.0.0.5: its config has machine.type: controlplane, but not"),
            std::string::npos);
  EXPECT_NE(refusal("controlplane", foreign.key).find("but not the key"), std::string::npos);
  EXPECT_NE(refusal("worker", present.key).find("10.0.0.5: its config is that of a worker"),
            std::string::npos);
}

}  // namespace talos::talosctl
