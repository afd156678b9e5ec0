#include "machined/config/maintenance-notice.h"

#include <gtest/gtest.h>

#include "common/tls/pki.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"

namespace talos::machined {
namespace {

// Catches: lines that cannot be pasted; a command without an address on a machine without one.
TEST(MaintenanceNoticeText, SaysWhereWhoAndWhat) {
  auto addresses = kj::arr(kj::str("10.5.0.2"), kj::str("fd00::2"));
  EXPECT_EQ(
      "this node is waiting for its config, on port 50000 of\n"
      "  10.5.0.2\n"
      "  fd00::2\n"
      "the fingerprint of its certificate is abc+/=\n"
      "apply a config with one of\n"
      "  talosctl apply-config --insecure --nodes 10.5.0.2 --cert-fingerprint 'abc+/=' --file "
      "controlplane.yaml\n"
      "  talosctl apply-config --insecure --nodes fd00::2 --cert-fingerprint 'abc+/=' --file "
      "controlplane.yaml\n",
      maintenanceNotice(addresses, "abc+/="));
  auto alone = maintenanceNotice(nullptr, "abc");
  EXPECT_EQ(nullptr, strstr(alone.cStr(), "talosctl"));
  EXPECT_NE(nullptr, strstr(alone.cStr(), "no address yet"));
}

struct MaintenanceNoticeTest : public StoreTest {
  ~MaintenanceNoticeTest() noexcept override {}
  kj::Vector<kj::String> said;
  bool waiting = true;
  MaintenanceNotice notice{store, [this]() { return waiting; },
                           [this](kj::StringPtr text) { said.add(kj::str(text)); }};
  pki::Pem key = pki::makeKey(pki::KeyType::kEd25519);

  void certificate(bool maintenance) {
    auto pem = pki::selfSign(key, {.commonName = "maintenance"});
    putRecord<rpc::ApiCertificateSpec>(store, "api", [&](rpc::ApiCertificateSpec::Builder spec) {
      spec.setMaintenance(maintenance);
      spec.initServer().setCrt(pem.asBytes());
    });
    settle();
  }
  void addresses(std::initializer_list<kj::StringPtr> list) {
    putRecord<rpc::NodeAddressSpec>(store, "current", [&](rpc::NodeAddressSpec::Builder spec) {
      auto out = spec.initAddresses(list.size());
      unsigned i = 0;
      for (auto text : list) out.set(i++, text);
    });
    settle();
  }
  void settle() {
    for (int i = 0; i < 10; i++) scope.poll();
  }
};

// Catches: a notice before its facts are known, a needless repetition, and a missing notice after
// the address has changed.
TEST_F(MaintenanceNoticeTest, IsSaidWhenItIsTrueAndWhenItChanges) {
  certificate(true);
  EXPECT_EQ(0u, said.size());  // networkd has published nothing
  addresses({"127.0.0.1/8", "10.5.0.2/24", "fe80::1/64"});
  ASSERT_EQ(1u, said.size());
  EXPECT_NE(nullptr, strstr(said[0].cStr(), "--nodes 10.5.0.2 "));
  EXPECT_EQ(nullptr, strstr(said[0].cStr(), "fe80"));
  EXPECT_EQ(nullptr, strstr(said[0].cStr(), "127.0.0.1"));
  certificate(true);  // renewed, with the same key
  EXPECT_EQ(1u, said.size());
  addresses({"10.5.0.3/24"});
  ASSERT_EQ(2u, said.size());
  EXPECT_NE(nullptr, strstr(said[1].cStr(), "--nodes 10.5.0.3 "));
  certificate(false);
  addresses({"10.5.0.4/24"});
  EXPECT_EQ(2u, said.size());
}

// Catches: a machine with a failed boot that prompts for a config which it does not accept.
TEST_F(MaintenanceNoticeTest, IsNotSaidWhenNobodyWaits) {
  waiting = false;
  certificate(true);
  addresses({"10.5.0.2/24"});
  EXPECT_EQ(0u, said.size());
}

}  // namespace
}  // namespace talos::machined
