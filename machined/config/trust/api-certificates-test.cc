// The certificates of the API, and the secrets with which trustd signs.
#include "machined/config/trust/api-certificates.h"

#include "common/tls/public-key.h"
#include "common/wire/roles.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/config/trust/kept-identity.h"
#include "machined/config/trust/root-secrets-controller.h"
#include "rpc/local.capnp.h"

namespace talos::machined {
namespace {

struct CertificatesTest : public ConfigTest {
  ~CertificatesTest() noexcept override {}

  // Waits until the API certificates have this version.
  void awaitCertificates(uint64_t version) {
    for (;;) {
      KJ_IF_MAYBE (stored, store.tryGet<rpc::ApiCertificateSpec>("api")) {
        if (stored->version() >= version) return;
      }
      auto paf = kj::newPromiseAndFulfiller<void>();
      auto handle = store.onChange<rpc::ApiCertificateSpec>([&] { paf.fulfiller->fulfill(); });
      io.provider->getTimer().timeoutAfter(2 * kj::MINUTES, kj::mv(paf.promise)).wait(io.waitScope);
    }
  }
  ResourceOf<rpc::ApiCertificateSpec> certificates() {
    return KJ_ASSERT_NONNULL(store.tryGet<rpc::ApiCertificateSpec>("api"));
  }
  uint64_t version() { return certificates().version(); }
  static pki::CertificateInfo inspect(capnp::Data::Reader pem) {
    return pki::inspect(kj::str(pem.asChars()));
  }

  void putAddress(kj::StringPtr address) {
    put<rpc::NodeAddressSpec>("accumulative",
                              [&](auto spec) { spec.initAddresses(1).set(0, address); });
  }
  void addApi() { runtime.add(kj::heap<ApiController>(uv, timer, clock, reader())); }
};

TEST_F(CertificatesTest, ApiCertificatesHaveTheNodesNamesAndRoles) {
  putAddress("10.5.0.2/24");
  addApi();
  awaitCertificates(1);
  auto spec = certificates();
  EXPECT_EQ(kj::str(spec.getCa().asChars()), authority.certificate);
  auto server = inspect(spec.getServer().getCrt()), client = inspect(spec.getClient().getCrt());
  EXPECT_EQ(joined(server.addresses), "10.5.0.2 127.0.0.1 ::1");
  EXPECT_EQ(server.organizations.size(), 0u);
  EXPECT_EQ(joined(client.organizations), "os:impersonator");
  pki::checkPair(kj::str(spec.getServer().getCrt().asChars()),
                 kj::str(spec.getServer().getKey().asChars()));
  pki::checkPair(kj::str(spec.getClient().getCrt().asChars()),
                 kj::str(spec.getClient().getKey().asChars()));
}

// Catches: a machine in a cloud whose certificate lacks the address that clients use, or gets it
// only after another change.
TEST_F(CertificatesTest, AnAddressOutsideIsInTheCertificate) {
  putAddress("10.5.0.2");
  addApi();
  awaitCertificates(1);
  put<rpc::PlatformConfigSpec>("platform",
                               [](auto spec) { spec.initExternalIPs(1).set(0, "203.0.113.7"); });
  awaitCertificates(2);
  EXPECT_EQ(joined(inspect(certificates().getServer().getCrt()).addresses),
            "10.5.0.2 127.0.0.1 203.0.113.7 ::1");
}

// Catches the quirk of Talos: new certificates at every wake-up, which restart all their
// users.
TEST_F(CertificatesTest, ApiCertificatesAreMadeAnewOnlyWhenTheirInputsChangeOrHalfTheirLifeIsOver) {
  putAddress("10.5.0.2");
  addApi();
  awaitCertificates(1);
  runtime.poke("secrets.ApiController");
  poll();
  clock.time += 11 * kj::HOURS;
  runtime.poke("secrets.ApiController");
  poll();
  EXPECT_EQ(version(), 1u);

  putAddress("10.5.0.3");
  awaitCertificates(2);
  EXPECT_EQ(joined(inspect(certificates().getServer().getCrt()).addresses),
            "10.5.0.3 127.0.0.1 ::1");

  clock.time += 12 * kj::HOURS;
  timer.advanceTo(timer.now() + 2 * kj::HOURS);  // the controller checks the clock by itself
  awaitCertificates(3);
  EXPECT_GT(inspect(certificates().getServer().getCrt()).notAfter, clock.time + 23 * kj::HOURS);

  authority = makeAuthority();
  runtime.poke("secrets.ApiController");
  awaitCertificates(4);
  EXPECT_EQ(kj::str(certificates().getCa().asChars()), authority.certificate);

  clock.time -= 20 * kj::HOURS;
  runtime.poke("secrets.ApiController");
  awaitCertificates(5);
  poll();
  EXPECT_EQ(version(), 5u);
}

// Catches: CAs of the config that take effect only with the next boot or never; clients of the
// other CA that cannot verify the node; a certificate that stays when its chain changes.
TEST_F(CertificatesTest, CasBesideTheOwnOneAreAcceptedAndLeadToIt) {
  addApi();
  awaitCertificates(1);
  auto next = makeAuthority();
  auto ownByNext = pki::crossSign(next.certificate, next.key, authority.certificate);
  accepted.add(kj::str(next.certificate));
  accepted.add(kj::str(ownByNext));
  runtime.poke("secrets.ApiController");
  awaitCertificates(2);
  auto text = [&] { return kj::str(certificates().getServer().getCrt().asChars()); };
  EXPECT_EQ(kj::str(certificates().getCa().asChars()),
            kj::str(authority.certificate, next.certificate));
  ASSERT_EQ(pki::certificatesIn(text()).size(), 2u);
  EXPECT_EQ(pki::certificatesIn(text())[1], ownByNext);
  runtime.poke("secrets.ApiController");
  poll();
  EXPECT_EQ(version(), 2u);

  auto nextByOwn = pki::crossSign(authority.certificate, authority.key, next.certificate);
  accepted[0] = kj::str(authority.certificate);
  accepted[1] = kj::str(nextByOwn);
  std::swap(authority, next);
  runtime.poke("secrets.ApiController");
  awaitCertificates(3);
  EXPECT_TRUE(pki::isSignedBy(text(), authority.certificate));
  EXPECT_EQ(pki::certificatesIn(text())[1], nextByOwn);
  accepted.removeLast();
  runtime.poke("secrets.ApiController");
  awaitCertificates(4);
  EXPECT_EQ(pki::certificatesIn(text()).size(), 1u) << "what went with it is gone";
  accepted.clear();
  runtime.poke("secrets.ApiController");
  awaitCertificates(5);
  EXPECT_EQ(kj::str(certificates().getCa().asChars()), authority.certificate);
}

// Catches: a lifetime of seconds that causes endless renewals, or none.
TEST_F(CertificatesTest, ApiCertificatesHaveTheLifetimeOfTheConfig) {
  addApi();
  awaitCertificates(1);
  lifetime = 10 * kj::SECONDS;
  runtime.poke("secrets.ApiController");
  awaitCertificates(2);
  for (auto pair : {certificates().getServer(), certificates().getClient()}) {
    auto info = inspect(pair.getCrt());
    EXPECT_EQ((info.notAfter - clock.time) / kj::SECONDS, 10);
  }
  poll();
  clock.time += 4 * kj::SECONDS;
  timer.advanceTo(timer.now() + 4 * kj::SECONDS);
  poll();
  EXPECT_EQ(version(), 2u);
  clock.time += 1 * kj::SECONDS;
  timer.advanceTo(timer.now() + 2 * kj::SECONDS);
  awaitCertificates(3);
}

// Catches: a worker, or a machine without the key, that gets secrets which it must not have; names
// of the control plane for which other nodes can get a certificate; changes without an effect that
// cause restarts.
TEST_F(CertificatesTest, WhatTrustdSignsWithIsThereOnControlPlanesOnly) {
  auto version = [&]() -> uint64_t {
    poll();
    KJ_IF_MAYBE (stored, store.tryGet<rpc::RootSecretSpec>("os")) return stored->version();
    return 0;
  };
  putAddress("10.5.0.2/24");
  put<rpc::HostnameSpecSpec>("hostname", [](auto spec) {
    spec.setHostname("cp1");
    spec.setDomainname("example.org");
  });
  runtime.add(kj::heap<RootController>(
      reader(), ControlPlaneNodes::Dependencies{.uv = uv, .isMounted = [] { return false; }}));
  ASSERT_EQ(version(), 1u);
  auto os = KJ_ASSERT_NONNULL(store.tryGet<rpc::RootSecretSpec>("os")).getOs();
  EXPECT_EQ(kj::str(os.getCa().getKey().asChars()), kj::StringPtr(authority.key));
  EXPECT_EQ(os.getToken(), token);
  EXPECT_EQ(kj::strArray(os.getReserved(), " "),
            "10.5.0.2 10.5.0.9 10.96.0.1 api.example.org cp1 cp1.example.org vip.example.org");
  EXPECT_EQ(os.getDnsDomain(), "cluster.local");
  EXPECT_EQ(kj::strArray(os.getCertSANs(), " "), "api.example.org");
  EXPECT_EQ(os.getCertLifetimeS(), 24u * 3600);
  EXPECT_FALSE(os.getControlPlaneKnown());

  // The config does not name other control-plane nodes.
  put<rpc::MemberSpec>("cp2", [](auto spec) {
    spec.setHostname("cp2.example.org");
    spec.setMachineType("controlplane");
    spec.initAddresses(1).set(0, "10.5.0.8");
  });
  put<rpc::MemberSpec>("w1", [](auto spec) {
    spec.setHostname("w1");
    spec.setMachineType("worker");
    spec.initAddresses(1).set(0, "10.5.0.7");
  });
  ASSERT_EQ(version(), 2u);
  auto more = KJ_ASSERT_NONNULL(store.tryGet<rpc::RootSecretSpec>("os")).getOs();
  EXPECT_EQ(kj::strArray(more.getReserved(), " "),
            "10.5.0.2 10.5.0.8 10.5.0.9 10.96.0.1 api.example.org cp1 cp1.example.org cp2 "
            "cp2.example.org vip.example.org");
  EXPECT_TRUE(more.getControlPlaneKnown());

  runtime.poke("secrets.RootController");
  hosts = texts({"10.5.0.9", "vip.example.org"});
  runtime.poke("secrets.RootController");
  EXPECT_EQ(version(), 2u);
  putAddress("10.5.0.3/24");
  EXPECT_EQ(version(), 3u);
  type = config::MachineType::WORKER;
  runtime.poke("secrets.RootController");
  EXPECT_EQ(version(), 0u);
  type = config::MachineType::INIT;
  runtime.poke("secrets.RootController");
  EXPECT_EQ(version(), 1u);
  withKey = false;
  runtime.poke("secrets.RootController");
  EXPECT_EQ(version(), 0u);
  withKey = true;
  token = "";
  runtime.poke("secrets.RootController");
  EXPECT_EQ(version(), 0u);
}

// Catches: a controller that removes the certificate that apid got from trustd, or keeps its own in
// this place.
TEST_F(CertificatesTest, WithoutTheAuthoritysKeyTheCertificatesAreApids) {
  addApi();
  awaitCertificates(1);
  withKey = false;
  runtime.poke("secrets.ApiController");
  poll();
  EXPECT_TRUE(store.tryGet<rpc::ApiCertificateSpec>("api") == nullptr);
  put<rpc::ApiCertificateSpec>("api", [](auto spec) { spec.initServer(); });
  runtime.poke("secrets.ApiController");
  poll();
  EXPECT_TRUE(store.tryGet<rpc::ApiCertificateSpec>("api") != nullptr);
  EXPECT_TRUE(strstr(log.cStr(), "failed") == nullptr) << log.cStr();
}

// Catches: a config with another CA and its key that takes effect on a worker only at the next
// boot, and cuts the node off then.
TEST_F(CertificatesTest, WithAKeyTheCertificatesOfApidAreReplaced) {
  withKey = false;
  addApi();
  poll();
  putRecord<rpc::ApiCertificateSpec>(
      store, "api", [](auto spec) { spec.initServer(); }, kApidOwner);
  withKey = true;
  runtime.poke("secrets.ApiController");
  awaitCertificates(1);
  for (int i = 0; i < 100 && certificates().getCa().size() == 0; ++i) {
    io.provider->getTimer().afterDelay(10 * kj::MILLISECONDS).wait(io.waitScope);
  }
  EXPECT_EQ(kj::str(certificates().getCa().asChars()), authority.certificate);
  EXPECT_EQ(version(), 2u) << "apid takes up another version only";
}

// Catches: a fingerprint that changes while an operator compares it; a temporary certificate that
// stays in use or shares its key with the real one.
TEST_F(CertificatesTest, InMaintenanceTheCertificateIsThrowAwayAndItsKeyStays) {
  present = false;
  bool maintenance = true;
  putAddress("10.5.0.2/24");
  runtime.add(kj::heap<ApiController>(uv, timer, clock, reader(), [&] { return maintenance; }));
  awaitCertificates(1);
  auto print = [&] {
    auto pem = kj::str(certificates().getServer().getCrt().asChars());
    pki::checkPair(pem, kj::str(certificates().getServer().getKey().asChars()));
    return pki::fingerprint(pem);
  };
  auto shown = print();
  EXPECT_TRUE(certificates().getMaintenance());
  EXPECT_EQ(0u, certificates().getCa().size() + certificates().getClient().getKey().size());
  auto info = inspect(certificates().getServer().getCrt());
  EXPECT_EQ(joined(info.addresses), "10.5.0.2 127.0.0.1 ::1");
  EXPECT_FALSE(info.authority);
  EXPECT_EQ(24 * 60 + 5, (info.notAfter - info.notBefore) / kj::MINUTES);
  poll();
  EXPECT_EQ(version(), 1u);

  putAddress("10.5.0.3/24");
  awaitCertificates(2);
  EXPECT_EQ(joined(inspect(certificates().getServer().getCrt()).addresses),
            "10.5.0.3 127.0.0.1 ::1");
  EXPECT_EQ(shown, print());
  clock.time += 13 * kj::HOURS;
  timer.advanceTo(timer.now() + 2 * kj::HOURS);
  awaitCertificates(3);
  EXPECT_EQ(shown, print());

  maintenance = false;
  present = true;
  runtime.poke("secrets.ApiController");
  awaitCertificates(4);
  EXPECT_FALSE(certificates().getMaintenance());
  EXPECT_EQ(kj::str(certificates().getCa().asChars()), authority.certificate);
  EXPECT_NE(shown, print());
}

// Catches: a machine whose config cannot give it certificates, and that stays open to everybody.
TEST_F(CertificatesTest, AConfigEndsTheThrowAwayCertificateInAnyCase) {
  present = false;
  bool maintenance = true;
  runtime.add(kj::heap<ApiController>(uv, timer, clock, reader(), [&] { return maintenance; }));
  awaitCertificates(1);
  maintenance = false;
  present = true;
  withKey = false;
  runtime.poke("secrets.ApiController");
  poll();
  EXPECT_TRUE(store.tryGet<rpc::ApiCertificateSpec>("api") == nullptr);
}

TEST_F(CertificatesTest, NothingIsIssuedBeforeThereIsAConfig) {
  present = false;
  addApi();
  poll();
  EXPECT_TRUE(store.tryGet<rpc::ApiCertificateSpec>("api") == nullptr);
  EXPECT_TRUE(strstr(log.cStr(), "failed") == nullptr) << log.cStr();
}
}  // namespace
}  // namespace talos::machined
