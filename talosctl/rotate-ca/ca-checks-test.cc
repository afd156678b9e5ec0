// Tests when a phase of the CA of the aggregation layer or of etcd is in effect.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/talosconfig/talosconfig.h"
#include "talosctl/rotate-ca/rotations.h"

namespace talos::talosctl {
namespace {

struct CaChecks : ::testing::Test {
  ~CaChecks() noexcept override {}
  pki::CertificateAndKey old = pki::makeAuthority({.organization = "x"}),
                         next = pki::makeAuthority({.organization = "x"});
  Rotation rotation;
  kj::String oldHash, newHash;

  void SetUp() override {
    rotation.oldCa = kj::str(old.certificate);
    rotation.newCa = kj::str(next.certificate);
    oldHash = pki::authorityHash(old.certificate);
    newHash = pki::authorityHash(next.certificate);
  }
  static kj::Array<kj::String> list(std::initializer_list<kj::StringPtr> texts) {
    return KJ_MAP(text, texts) {
      return kj::str(text);
    };
  }
};

using enum RotationPhase;

// Catches: an API server with the certificate or the CAs of an earlier phase.
TEST_F(CaChecks, OfAnApiServer) {
  auto error = [&](RotationPhase phase, std::initializer_list<kj::StringPtr> texts) {
    return aggregatorError(rotation, phase, list(texts)).orDefault("none"_kj);
  };
  EXPECT_EQ(error(kAccept, {oldHash}), "its API server has not been given the new CA yet"_kj);
  EXPECT_EQ(error(kAccept, {oldHash, newHash}), "none"_kj);
  EXPECT_EQ(error(kIssue, {oldHash, newHash}),
            "its API server has no certificate of the new CA yet"_kj);
  EXPECT_EQ(error(kIssue, {newHash, oldHash}), "none"_kj);
  EXPECT_EQ(error(kIssue, {newHash}), "its API server does not accept the old CA"_kj);
  EXPECT_EQ(error(kDrop, {newHash, oldHash}), "its API server accepts the old CA still"_kj);
  EXPECT_EQ(error(kDrop, {newHash}), "none"_kj);
}

// Catches: a rotation that stops for an API that was unavailable before, or that breaks an API
// without an error.
TEST_F(CaChecks, ApisThatWereAvailable) {
  auto before = list({"v1beta1.metrics.k8s.io: MissingEndpoints"});
  auto broken = [&](std::initializer_list<kj::StringPtr> now) {
    auto lines = list(now);
    return kj::strArray(newlyUnavailable(before, lines), ", ");
  };
  EXPECT_EQ(broken({"v1beta1.metrics.k8s.io: FailedDiscoveryCheck"}), "");
  EXPECT_EQ(broken({"v1.a.example.org: FailedDiscoveryCheck", "v1beta1.metrics.k8s.io: x"}),
            "v1.a.example.org: FailedDiscoveryCheck");
}

// Catches: an etcd that counts as accepting both CAs while it refuses one of them.
TEST_F(CaChecks, OfEtcd) {
  auto both = kj::str(old.certificate, next.certificate);
  auto leaf = [](const pki::CertificateAndKey& ca) {
    return pki::issue(ca.certificate, ca.key, {.commonName = "master-1"}).certificate;
  };
  auto oldLeaf = leaf(old), newLeaf = leaf(next);
  auto error = [&](RotationPhase phase, kj::StringPtr authorities,
                   std::initializer_list<kj::StringPtr> certificates) {
    return etcdFilesError(rotation, phase, authorities, list(certificates)).orDefault("none"_kj);
  };
  EXPECT_EQ(error(kAccept, old.certificate, {oldLeaf, oldLeaf}),
            "its etcd does not accept the new CA yet"_kj);
  EXPECT_EQ(error(kAccept, both, {oldLeaf, oldLeaf}), "none"_kj);
  EXPECT_EQ(error(kIssue, both, {newLeaf, oldLeaf}),
            "the certificates of its etcd are not of the new CA yet"_kj);
  EXPECT_EQ(error(kIssue, next.certificate, {newLeaf, newLeaf}),
            "its etcd does not accept the old CA"_kj);
  EXPECT_EQ(error(kIssue, both, {newLeaf, newLeaf}), "none"_kj);
  EXPECT_EQ(error(kDrop, both, {newLeaf, newLeaf}), "its etcd accepts the old CA still"_kj);
  EXPECT_EQ(error(kDrop, next.certificate, {newLeaf, newLeaf}), "none"_kj);
}

// Catches: an API server that could not connect to etcd in the next phase.
TEST_F(CaChecks, OfTheApiServersConnectionToEtcd) {
  auto error = [&](RotationPhase phase, std::initializer_list<kj::StringPtr> texts) {
    return etcdClientError(rotation, phase, list(texts)).orDefault("none"_kj);
  };
  EXPECT_EQ(error(kAccept, {oldHash}), "its API server has not been given the new CA yet"_kj);
  EXPECT_EQ(error(kIssue, {newHash}), "its API server does not accept the old CA"_kj);
  EXPECT_EQ(error(kIssue, {newHash, oldHash}), "none"_kj);
  EXPECT_EQ(error(kDrop, {newHash, oldHash}), "its API server accepts the old CA still"_kj);
  EXPECT_EQ(error(kDrop, {newHash}), "none"_kj);
}

// Catches: a talosconfig that the cluster refuses once the old CA is dropped; another context, or
// one of another cluster, that is overwritten.
TEST_F(CaChecks, TheContextGetsTheNewClient) {
  char folder[] = "/tmp/rotate-ca-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  KJ_DEFER(removeTree(folder));
  auto path = kj::str(folder, "/talosconfig");
  auto client = [](const pki::CertificateAndKey& ca) {
    auto leaf = pki::issue(ca.certificate, ca.key, {.commonName = "admin", .server = false});
    return Credentials{kj::str(ca.certificate), kj::mv(leaf.certificate), kj::mv(leaf.key)};
  };
  auto foreign = pki::makeAuthority({.organization = "x"});
  auto present = client(old), other = client(foreign), fresh = client(next);
  Talosconfig config;
  auto add = [&](kj::StringPtr name, const Credentials& of) {
    Context context{.endpoints = {},
                    .nodes = {},
                    .ca = kj::str(of.authorities),
                    .certificate = kj::str(of.certificate),
                    .key = of.key.clone()};
    context.endpoints.add(kj::str("10.5.0.2"));
    config.add(name, kj::mv(context));
  };
  add("demo", present);
  add("other", other);
  config.save(path);
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  auto replace = [&](kj::StringPtr name) {
    return replaceClient(timer, path, name, old.certificate, fresh).wait(io.waitScope);
  };
  EXPECT_FALSE(replace("other"));
  EXPECT_EQ(Talosconfig::load(path).toYaml(), config.toYaml());
  EXPECT_TRUE(replace("demo"));
  auto now = Talosconfig::load(path);
  EXPECT_EQ(now.resolve("demo").certificate, fresh.certificate);
  EXPECT_EQ(now.resolve("demo").ca, next.certificate);
  EXPECT_EQ(now.resolve("demo").endpoints[0], "10.5.0.2");
  TlsEndpoint check(now.resolve("demo").credentials());  // throws if the key is of another one
  EXPECT_EQ(now.resolve("other").certificate, other.certificate);
  EXPECT_FALSE(replace("")) << "the current context is of the new CA by now";
}

}  // namespace
}  // namespace talos::talosctl
