#include "common/tls/node-certificate.h"

#include <gtest/gtest.h>

#include "common/testing/printing.h"

namespace talos {
namespace {

kj::Array<kj::String> texts(std::initializer_list<kj::StringPtr> list) {
  return KJ_MAP(text, list) {
    return kj::str(text);
  };
}

kj::String joined(kj::ArrayPtr<const kj::String> list) {
  return kj::strArray(list, " ");
}

TEST(NodeNames, AreAddressesNamesAndWhatTheConfigAdds) {
  auto names = nodeNames("n1", "example.org", texts({"10.5.0.2/24", "fd00:0::2", "10.5.0.2"}),
                         texts({"api.example.org", "1.2.3.4", "not a name", "n1", "0.0.0.0"}));
  EXPECT_EQ(names.commonName, "n1.example.org");
  EXPECT_EQ(joined(names.dns), "api.example.org localhost n1 n1.example.org");
  EXPECT_EQ(joined(names.addresses), "1.2.3.4 10.5.0.2 127.0.0.1 ::1 fd00::2");
  auto bare = nodeNames("", "", nullptr, nullptr);
  EXPECT_EQ(bare.commonName, "");
  EXPECT_EQ(joined(bare.dns), "localhost");
}

const kj::Date kNow = kj::UNIX_EPOCH + 20'000 * kj::DAYS;

pki::CertificateInfo made(const NodeNames& names, kj::Duration lifetime) {
  auto authority = pki::makeAuthority({.organization = "talos", .notBefore = kNow - 1 * kj::DAYS});
  return pki::inspect(
      pki::issue(authority.certificate, authority.key, serverOptions(names, lifetime, kNow))
          .certificate);
}

// Catches: a control-plane node, with or without names of its own in the certificate, that workers
// take for a worker; a worker that they take for a control-plane node, because a name in its
// certificate looks like the address.
TEST(NodeCertificate, OfAControlPlaneNodeIsRecognised) {
  EXPECT_TRUE(isOfControlPlane(made(nodeNames("", "", nullptr, nullptr), kDefaultLifetime)));
  EXPECT_TRUE(
      isOfControlPlane(made(nodeNames("n1", "", texts({"10.5.0.2"}), nullptr), kDefaultLifetime)));
  NodeNames worker;
  for (auto name : {"127.0.0.1"_kj, "IP:127.0.0.1"_kj, "w1,IP:127.0.0.1"_kj, "localhost"_kj}) {
    worker.dns.add(kj::str(name));
  }
  for (auto address : {"10.5.0.9"_kj, "::1"_kj, "127.0.0.2"_kj}) {
    worker.addresses.add(kj::str(address));
  }
  EXPECT_FALSE(isOfControlPlane(made(worker, kDefaultLifetime)));
}

// Catches: a half-life that counts the time before the certificate was made (a certificate of ten
// seconds would be renewed for ever); a certificate that ends before it begins; a certificate that
// is not renewed.
TEST(NodeCertificate, IsRenewedAtHalfOfItsLife) {
  auto names = nodeNames("n1", "", texts({"10.5.0.2"}), nullptr);
  for (auto lifetime : {kShortestLifetime, kDefaultLifetime}) {
    auto info = made(names, lifetime);
    EXPECT_EQ((kNow - info.notBefore) / kj::SECONDS, 300);
    EXPECT_EQ((info.notAfter - kNow) / kj::SECONDS, lifetime / kj::SECONDS);
    EXPECT_EQ((halfLife(info) - kNow) / kj::SECONDS, lifetime / kj::SECONDS / 2);
    auto cause = [&](kj::Duration later) {
      return kj::str(renewalCause(info, names, lifetime, kNow + later).orDefault("it stays"));
    };
    EXPECT_EQ(cause(0 * kj::SECONDS), "it stays");
    EXPECT_EQ(cause(lifetime / 2 - 1 * kj::SECONDS), "it stays");
    EXPECT_EQ(cause(lifetime / 2), "half of its lifetime has passed");
    EXPECT_EQ(cause(87'600 * kj::HOURS), "half of its lifetime has passed");
    EXPECT_EQ(cause(-87'600 * kj::HOURS), "it is not yet valid: the clock was set back");
  }
}

TEST(NodeCertificate, OtherNamesOrAnotherLifetimeMakeItAnew) {
  auto names = nodeNames("n1", "", texts({"10.5.0.2"}), nullptr);
  auto info = made(names, kDefaultLifetime);
  auto cause = [&](const NodeNames& now, kj::Duration lifetime) {
    return kj::str(renewalCause(info, now, lifetime, kNow).orDefault("it stays"));
  };
  EXPECT_EQ(cause(nodeNames("n1", "", texts({"10.5.0.3"}), nullptr), kDefaultLifetime),
            "the names of this node changed");
  EXPECT_EQ(cause(nodeNames("n2", "", texts({"10.5.0.2"}), nullptr), kDefaultLifetime),
            "the names of this node changed");
  EXPECT_EQ(cause(names, kShortestLifetime), "its lifetime in the config changed");
}

TEST(NodeCertificate, IsAServersOnly) {
  auto options = serverOptions(NodeNames(), kDefaultLifetime, kj::UNIX_EPOCH);
  EXPECT_TRUE(options.server);
  EXPECT_FALSE(options.client);
}

// Catches: names that trustd writes differently from the machine that requested them, which would
// renew for ever; a dot at the end, with which no client knows a name.
TEST(NodeNames, AreInLowerCaseAndWithoutADotAtTheEnd) {
  auto names = nodeNames("Worker1", "Example.ORG", nullptr, texts({"API.Example.org."}));
  EXPECT_EQ(kj::strArray(names.dns, " "), "api.example.org localhost worker1 worker1.example.org");
  EXPECT_EQ(names.commonName, "Worker1.Example.ORG");
}

}  // namespace
}  // namespace talos
