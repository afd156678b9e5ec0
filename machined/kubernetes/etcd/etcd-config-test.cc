#include "machined/kubernetes/etcd/etcd-config.h"
#include "machined/kubernetes/etcd/assigned-addresses.h"

#include "common/tls/authorities.h"
#include "common/tls/public-key.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/kubernetes/etcd/etcd-secrets.h"

namespace talos::machined {
namespace {

kj::Vector<kj::String> list(std::initializer_list<kj::StringPtr> items) {
  kj::Vector<kj::String> result;
  for (auto item : items) result.add(kj::str(item));
  return result;
}

kj::String joinedTexts(capnp::List<capnp::Text>::Reader texts) {
  return kj::strArray(texts, " ");
}

struct EtcdPlan : public testing::Test {
  ~EtcdPlan() noexcept override {}
  EtcdPlan() {
    machine.setType(config::MachineType::CONTROLPLANE);
    machine.getCa().setKey("key"_kj.asBytes());
    etcd.getCa().setCrt("authority"_kj.asBytes());
    etcd.getCa().setKey("key"_kj.asBytes());
    setTrustdEndpoints({"10.5.0.2", "10.5.0.3", "10.5.0.4"});
    node.hostname = kj::str("master-1");
    node.addresses = list({"10.5.0.2", "192.168.7.1"});
  }
  void setTrustdEndpoints(std::initializer_list<kj::StringPtr> hosts) {
    fillTexts(root.getCluster().getTrustd().initEndpoints(hosts.size()), texts(hosts));
  }
  void setAdvertised(std::initializer_list<kj::StringPtr> subnets) {
    fillTexts(etcd.initAdvertisedSubnets(subnets.size()), texts(subnets));
  }
  void setListen(std::initializer_list<kj::StringPtr> subnets) {
    fillTexts(etcd.initListenSubnets(subnets.size()), texts(subnets));
  }
  rpc::EtcdConfigSpec::Reader plan() {
    held = planEtcd(root, node);
    return held.get<kj::Own<capnp::MallocMessageBuilder>>()->getRoot<rpc::EtcdConfigSpec>();
  }
  std::string waits() {
    auto planned = planEtcd(root, node);
    return planned.is<EtcdWaits>() ? planned.get<EtcdWaits>().what.cStr() : "";
  }
  capnp::MallocMessageBuilder message;
  config::Config::Builder root = message.initRoot<config::Config>();
  config::Machine::Builder machine = root.getMachine();
  config::Etcd::Builder etcd = root.getCluster().getEtcd();
  EtcdNodeContext node;
  kj::OneOf<kj::Own<capnp::MallocMessageBuilder>, EtcdWaits> held;
};

TEST_F(EtcdPlan, HasTheNodesNameAndAddressesAndTheOtherNodes) {
  auto planned = plan();
  EXPECT_STREQ("master-1", planned.getName().cStr());
  EXPECT_EQ("10.5.0.2 192.168.7.1", joinedTexts(planned.getAddresses()));
  EXPECT_EQ("10.5.0.3 10.5.0.4", joinedTexts(planned.getPeers()));
  EXPECT_EQ("", joinedTexts(planned.getListenAddresses()));
  EXPECT_FALSE(planned.getBootstraps());
  machine.setType(config::MachineType::INIT);
  EXPECT_TRUE(plan().getBootstraps());
}

// Catches: a setting of etcd that is lost on the way to its supervisor.
TEST_F(EtcdPlan, HasTheImageAndArgumentsOfTheConfig) {
  etcd.setImage("r/etcd:v3.5.1");
  auto argument = etcd.initExtraArgs(1)[0];
  argument.setKey("election-timeout");
  argument.setValue("5000");
  auto planned = plan();
  EXPECT_STREQ("r/etcd:v3.5.1", planned.getImage().cStr());
  ASSERT_EQ(1u, planned.getExtraArgs().size());
  EXPECT_STREQ("election-timeout", planned.getExtraArgs()[0].getKey().cStr());
  EXPECT_STREQ("5000", planned.getExtraArgs()[0].getValue().cStr());
}

// Catches: a member that is reached at an address which moves to another node.
TEST_F(EtcdPlan, NeverTakesASharedAddressForItsOwn) {
  node.addresses = list({"10.5.0.9", "10.5.0.2", "fd00::9"});
  node.shared = list({"10.5.0.9", "fd00:0::9"});
  setTrustdEndpoints({"10.5.0.9", "10.5.0.3"});
  auto planned = plan();
  EXPECT_EQ("10.5.0.2", joinedTexts(planned.getAddresses()));
  EXPECT_EQ("10.5.0.3", joinedTexts(planned.getPeers()));
  EXPECT_EQ("10.5.0.9 fd00::9", joinedTexts(planned.getShared()));
}

// Catches: etcd that the other members can only reach through the network of its own pods.
TEST_F(EtcdPlan, TakesNoAddressOfPodsForItsOwn) {
  fillTexts(root.getCluster().getNetwork().initPodSubnets(1), texts({"10.244.0.0/16"}));
  node.addresses = list({"10.244.0.1", "10.5.0.2", "10.9.0.1"});
  node.pods = list({"10.9.0.1"});
  EXPECT_EQ("10.5.0.2", joinedTexts(plan().getAddresses()));
  node.addresses = list({"10.244.0.1", "10.9.0.1"});
  EXPECT_EQ("an address of this node", waits());
  setAdvertised({"10.9.0.0/24"});
  setListen({"10.9.0.0/24"});
  EXPECT_EQ("10.9.0.1", joinedTexts(plan().getAddresses()));
}

// Catches: a node that queries itself and so never makes a cluster.
TEST_F(EtcdPlan, IsNotAmongItsOwnPeers) {
  setTrustdEndpoints({"master-1", "MASTER-1.", "192.168.7.1", "master-2"});
  EXPECT_EQ("master-2", joinedTexts(plan().getPeers()));
}

TEST_F(EtcdPlan, KeepsToTheSubnetsOfTheConfig) {
  setAdvertised({"192.168.0.0/16"});
  setListen({"10.0.0.0/8"});
  auto planned = plan();
  EXPECT_EQ("192.168.7.1", joinedTexts(planned.getAddresses()));
  EXPECT_EQ("10.5.0.2", joinedTexts(planned.getListenAddresses()));
  // Catches as well: etcd that listens everywhere because its configured network does not exist.
  setListen({"172.16.0.0/12", "fd00::/8"});
  EXPECT_EQ("an address in 172.16.0.0/12 or fd00::/8 (cluster.etcd.listenSubnets)", waits());
  setListen({});
  EXPECT_EQ("", waits());
  setAdvertised({"172.16.0.0/12"});
  EXPECT_EQ("an address in 172.16.0.0/12 (cluster.etcd.advertisedSubnets)", waits());
}

// Catches: an excluded address that is advertised or listened on; a list that only excludes and
// selects nothing, or an address of pods; an error that does not say what is excluded.
TEST_F(EtcdPlan, AnExclamationMarkExcludesTheAddressesOfASubnet) {
  node.addresses = list({"10.0.0.9", "10.0.0.5", "192.168.7.1", "fd00::5", "10.244.0.1"});
  auto advertised = [&](std::initializer_list<kj::StringPtr> subnets) {
    setAdvertised(subnets);
    auto error = waits();
    return error.empty() ? std::string(joinedTexts(plan().getAddresses()).cStr()) : error;
  };
  EXPECT_EQ("10.0.0.5", advertised({"10.0.0.0/24", "!10.0.0.9/32"}));
  EXPECT_EQ("10.0.0.5 192.168.7.1 fd00::5", advertised({"!10.0.0.9/32"}));
  EXPECT_EQ("192.168.7.1", advertised({"!10.0.0.0/8", "!fd00::/8"}));
  EXPECT_EQ("fd00::5", advertised({"!0.0.0.0/0"}));
  EXPECT_EQ("10.0.0.9 10.0.0.5 10.244.0.1", advertised({"!10.9.0.0/16", "10.0.0.0/8"}));
  EXPECT_EQ("an address in 10.0.0.9/32 that is not in 10.0.0.0/24 (cluster.etcd.advertisedSubnets)",
            advertised({"!10.0.0.0/24", "10.0.0.9/32"}));
  EXPECT_EQ(
      "an address of this node that is not in 0.0.0.0/0 or ::/0 (cluster.etcd.advertisedSubnets)",
      advertised({"!0.0.0.0/0", "!::/0"}));
  EXPECT_EQ("10.0.0.9 10.0.0.5 192.168.7.1 fd00::5", advertised({}));

  setListen({"!192.168.0.0/16", "!10.0.0.9/32"});
  EXPECT_EQ("10.0.0.5 fd00::5", joinedTexts(plan().getListenAddresses()));
  setListen({"10.0.0.9/32", "!10.0.0.9/32"});
  EXPECT_EQ("an address in 10.0.0.9/32 that is not in 10.0.0.9/32 (cluster.etcd.listenSubnets)",
            waits());
}

TEST_F(EtcdPlan, WaitsForANameAndAnAddress) {
  node.hostname = kj::str();
  EXPECT_EQ("the host name", waits());
  node.hostname = kj::str("master-1");
  node.addresses = list({"10.5.0.9"});
  node.shared = list({"10.5.0.9"});
  EXPECT_EQ("an address of this node", waits());
}

TEST_F(EtcdPlan, IsOfControlPlaneNodesWithACaOnly) {
  EXPECT_TRUE(runsEtcd(root));
  machine.setType(config::MachineType::WORKER);
  EXPECT_FALSE(runsEtcd(root));
  machine.setType(config::MachineType::INIT);
  etcd.getCa().setKey(nullptr);
  EXPECT_FALSE(runsEtcd(root));
}

struct EtcdControllers : public ConfigTest {
  ~EtcdControllers() noexcept override {}
  pki::CertificateAndKey etcdAuthority =
      pki::makeAuthority({.organization = "etcd",
                          .keyType = pki::KeyType::kEcdsaP256,
                          .notBefore = clock.time - 1 * kj::DAYS});
  kj::Vector<kj::String> acceptedAuthorities;

  auto etcdReader() {
    return [this](Store&) -> kj::Maybe<config::Config::Reader> {
      auto root = build();
      auto etcd = root.getCluster().getEtcd();
      setPair(etcd.getCa(), etcdAuthority);
      auto accepted = etcd.initAcceptedCAs(static_cast<unsigned>(acceptedAuthorities.size()));
      for (auto i : kj::indices(acceptedAuthorities)) {
        accepted[static_cast<unsigned>(i)].setCrt(acceptedAuthorities[i].asBytes());
      }
      return root.asReader();
    };
  }
  void putNode() {
    put<rpc::HostnameSpecSpec>("hostname", [](auto spec) { spec.setHostname("master-1"); });
    for (auto id : {"default"_kj, "current"_kj, "accumulative"_kj}) {
      put<rpc::NodeAddressSpec>(id, [](auto spec) { spec.initAddresses(1).set(0, "10.5.0.2"); });
    }
  }
  kj::Maybe<ResourceOf<rpc::EtcdSecretsSpec>> secrets(kj::StringPtr id = kEtcdId) {
    return store.tryGet<rpc::EtcdSecretsSpec>(id);
  }
  void awaitSecrets(uint64_t version) {
    for (;;) {
      KJ_IF_MAYBE (stored, secrets()) {
        if (stored->version() >= version) return;
      }
      auto paf = kj::newPromiseAndFulfiller<void>();
      auto handle = store.onChange<rpc::EtcdSecretsSpec>([&] { paf.fulfiller->fulfill(); });
      io.provider->getTimer().timeoutAfter(2 * kj::MINUTES, kj::mv(paf.promise)).wait(io.waitScope);
    }
  }
  static pki::CertificateInfo inspect(rpc::KeyPair::Reader pair) {
    pki::checkPair(kj::str(pair.getCrt().asChars()), kj::str(pair.getKey().asChars()));
    return pki::inspect(kj::str(pair.getCrt().asChars()));
  }
};

// Catches: a link that is down for a moment and stops the node's etcd; a record that does not say
// that the config waits, or still says so afterwards.
TEST_F(EtcdControllers, TheConfigStaysWhileTheAddressesAreAway) {
  runtime.add(kj::heap<EtcdConfigController>(etcdReader()));
  putNode();
  poll();
  EXPECT_TRUE(store.tryGet<rpc::EtcdConfigSpec>(kEtcdId) != nullptr);
  for (auto id : {"default"_kj, "current"_kj}) {
    put<rpc::NodeAddressSpec>(id, [](auto spec) { spec.initAddresses(0); });
  }
  poll();
  auto kept = store.tryGet<rpc::EtcdConfigSpec>(kEtcdId);
  EXPECT_EQ("10.5.0.2", joinedTexts(KJ_ASSERT_NONNULL(kept).getAddresses()));
  EXPECT_EQ("an address of this node", KJ_ASSERT_NONNULL(kept).getWaitsFor());
  putNode();
  poll();
  auto again = store.tryGet<rpc::EtcdConfigSpec>(kEtcdId);
  EXPECT_EQ("", KJ_ASSERT_NONNULL(again).getWaitsFor());
  type = config::MachineType::WORKER;
  runtime.poke("etcd.ConfigController");
  poll();
  EXPECT_TRUE(store.tryGet<rpc::EtcdConfigSpec>(kEtcdId) == nullptr);
}

// Catches: a member that is missing since the boot, without the reason.
TEST_F(EtcdControllers, WhatItWaitsForIsKnownWithoutARecord) {
  auto read = etcdReader();
  auto waits = [&] {
    auto config = read(store);
    return whatEtcdWaitsFor(store, KJ_ASSERT_NONNULL(config)).orDefault(kj::str());
  };
  put<rpc::HostnameSpecSpec>("hostname", [](auto spec) { spec.setHostname("master-1"); });
  EXPECT_EQ("an address of this node", waits());
  putNode();
  EXPECT_EQ("", waits());
  type = config::MachineType::WORKER;
  EXPECT_EQ("", waits());
}

// Catches: an unplugged cable that restarts etcd with an address of the pods' network, which the
// node keeps.
TEST_F(EtcdControllers, TheAddressStaysWhileItsLinkHasNoCarrier) {
  runtime.add(kj::heap<EtcdConfigController>(etcdReader()));
  auto assign = [&](kj::StringPtr id, kj::StringPtr address, kj::StringPtr link) {
    put<rpc::AddressStatusSpec>(id, [&](auto spec) {
      spec.setAddress(address);
      spec.setLinkName(link);
    });
  };
  auto addresses = [&] {
    poll();
    return joinedTexts(
        KJ_ASSERT_NONNULL(store.tryGet<rpc::EtcdConfigSpec>(kEtcdId)).getAddresses());
  };
  auto reach = [&](std::initializer_list<kj::StringPtr> current) {
    put<rpc::NodeAddressSpec>("current", [&](auto spec) {
      fillTexts(spec.initAddresses(static_cast<unsigned>(current.size())), texts(current));
    });
  };
  putNode();
  assign("eth0/10.5.0.2/24", "10.5.0.2/24", "eth0");
  assign("eth1/10.6.0.2/24", "10.6.0.2/24", "eth1");
  assign("cni0/10.99.0.1/24", "10.99.0.1/24", "cni0");
  assign("wg0/10.88.0.1/24", "10.88.0.1/24", "wg0");
  put<rpc::LinkStatusSpec>("wg0", [](auto spec) { spec.setKind("wireguard"); });
  auto assigned = assignedAddresses(store);
  EXPECT_EQ("10.99.0.1", kj::strArray(assigned.pods, " "));
  EXPECT_EQ("10.88.0.1", kj::strArray(assigned.tunnels, " "));
  // A cluster may use tunnels.
  reach({"10.5.0.2", "10.6.0.2", "10.88.0.1", "10.99.0.1"});
  EXPECT_EQ("10.5.0.2 10.6.0.2 10.88.0.1", addresses());
  reach({"10.6.0.2", "10.88.0.1", "10.99.0.1"});
  EXPECT_EQ("10.5.0.2 10.6.0.2 10.88.0.1", addresses());
  reach({"10.88.0.1", "10.99.0.1"});
  EXPECT_EQ("10.5.0.2 10.6.0.2 10.88.0.1", addresses());
  // Another lease.
  store.destroy("", typeName<rpc::AddressStatusSpec>(), "eth0/10.5.0.2/24", "networkd");
  assign("eth0/10.5.0.7/24", "10.5.0.7/24", "eth0");
  reach({"10.5.0.7", "10.6.0.2", "10.88.0.1", "10.99.0.1"});
  EXPECT_EQ("10.5.0.7 10.6.0.2 10.88.0.1", addresses());
}

// Catches: a member whose certificate is refused by the others, or by its own clients on loopback;
// a key that programs get without need.
TEST_F(EtcdControllers, SecretsAreOfTheMemberAndOfClients) {
  runtime.add(kj::heap<EtcdSecretsController>(uv, timer, clock, etcdReader()));
  putNode();
  awaitSecrets(1);
  auto etcd = KJ_ASSERT_NONNULL(secrets());
  for (auto pair : {etcd.getEtcdPeer(), etcd.getServer()}) {
    auto info = inspect(pair);
    EXPECT_EQ("10.5.0.2 127.0.0.1 ::1", joined(info.addresses));
    EXPECT_EQ("localhost master-1", joined(info.dnsNames));
  }
  EXPECT_EQ("os:reader", joined(inspect(etcd.getApi()).organizations));
  EXPECT_EQ(kj::str(etcd.getApiCa().asChars()), authority.certificate);
  auto client = KJ_ASSERT_NONNULL(secrets(kEtcdClientId));
  inspect(client.getClient());
  EXPECT_EQ(kj::str(client.getCa().asChars()), etcdAuthority.certificate);
  EXPECT_EQ(0u, client.getEtcdPeer().getKey().size());
  EXPECT_EQ(0u, client.getApi().getKey().size());
}

// The quirk of Talos: new certificates on every wake-up.
TEST_F(EtcdControllers, EachIsMadeAnewForAReasonOfItsOwn) {
  runtime.add(kj::heap<EtcdSecretsController>(uv, timer, clock, etcdReader()));
  auto settle = [&]() {
    auto& real = io.provider->getTimer();
    real.timeoutAfter(2 * kj::MINUTES, runtime.whenIdle()).wait(io.waitScope);
  };
  auto version = [&]() { return KJ_ASSERT_NONNULL(secrets()).version(); };
  auto peer = [&]() {
    return kj::str(KJ_ASSERT_NONNULL(secrets()).getEtcdPeer().getCrt().asChars());
  };
  putNode();
  awaitSecrets(1);
  settle();
  auto first = version();
  auto firstPeer = peer();
  runtime.poke("secrets.EtcdController");
  settle();
  EXPECT_EQ(first, version());
  // A temporarily held shared address does not cause a renewal, nor does a missing name.
  putRecord<rpc::VipSpecSpec>(store, "10.5.0.9", [](auto spec) { spec.setLinkName("eth0"); });
  put<rpc::NodeAddressSpec>("accumulative", [](auto spec) {
    auto addresses = spec.initAddresses(2);
    addresses.set(0, "10.5.0.2");
    addresses.set(1, "10.5.0.9");
  });
  settle();
  put<rpc::HostnameSpecSpec>("hostname", [](auto spec) { spec.setHostname(""); });
  settle();
  ASSERT_TRUE(secrets() != nullptr);
  put<rpc::HostnameSpecSpec>("hostname", [](auto spec) { spec.setHostname("master-1"); });
  settle();
  EXPECT_EQ(first, version());
  clock.time += 13 * kj::HOURS;  // half of the API certificates' lifetime in the config
  runtime.poke("secrets.EtcdController");
  settle();
  EXPECT_EQ(first + 1, version());
  EXPECT_EQ(firstPeer, peer());
  clock.time += 200 * kj::DAYS;
  runtime.poke("secrets.EtcdController");
  settle();
  EXPECT_EQ(first + 2, version());
  EXPECT_NE(firstPeer, peer());
  etcdAuthority = pki::makeAuthority({.organization = "etcd", .notBefore = clock.time});
  runtime.poke("secrets.EtcdController");
  settle();
  EXPECT_EQ(first + 3, version());
}

// Catches: members or clients that refuse each other while one CA replaces the other; a restart for
// certificates that are read at each handshake; certificates of the previous CA; a client that
// knows only one of the two, and is refused.
TEST_F(EtcdControllers, MembersAcceptEachOtherWhileTheCaIsReplaced) {
  runtime.add(kj::heap<EtcdSecretsController>(uv, timer, clock, etcdReader()));
  auto settle = [&]() {
    runtime.poke("secrets.EtcdController");
    auto& real = io.provider->getTimer();
    real.timeoutAfter(2 * kj::MINUTES, runtime.whenIdle()).wait(io.waitScope);
  };
  auto trusted = [&](kj::StringPtr id) {
    return kj::str(KJ_ASSERT_NONNULL(secrets(id)).getCa().asChars());
  };
  auto signedBy = [&](kj::StringPtr authority) {
    auto etcd = KJ_ASSERT_NONNULL(secrets());
    unsigned count = 0;
    for (auto pair : {etcd.getEtcdPeer(), etcd.getServer(), etcd.getClient()}) {
      count += pki::isSignedBy(kj::str(pair.getCrt().asChars()), authority) ? 1 : 0;
    }
    return count;
  };
  // Chains for a client of port 2379 and a member that know only this CA.
  auto chains = [&](kj::StringPtr authority) {
    auto etcd = KJ_ASSERT_NONNULL(secrets());
    unsigned count = 0;
    for (auto pair : {etcd.getEtcdPeer(), etcd.getServer()}) {
      auto sent = pki::certificatesIn(kj::str(pair.getCrt().asChars()));
      count += pki::isSignedBy(sent.back(), authority) ? 1 : 0;
    }
    return count;
  };
  putNode();
  awaitSecrets(1);
  settle();
  pki::CertificateAndKey old{kj::str(etcdAuthority.certificate), etcdAuthority.key.clone()};
  auto next = pki::makeAuthority({.organization = "etcd", .notBefore = clock.time});
  auto peer = kj::str(KJ_ASSERT_NONNULL(secrets()).getEtcdPeer().getCrt().asChars());
  acceptedAuthorities.add(kj::str(next.certificate));
  acceptedAuthorities.add(pki::crossSign(next.certificate, next.key, old.certificate));
  settle();
  auto both = trusted(kEtcdId);
  EXPECT_EQ(pki::certificatesIn(both).size(), 2u);
  EXPECT_EQ(both, trusted(kEtcdClientId));
  auto sent = kj::str(KJ_ASSERT_NONNULL(secrets()).getEtcdPeer().getCrt().asChars());
  EXPECT_EQ(peer, pki::certificatesIn(sent)[0]);
  EXPECT_EQ(chains(next.certificate), 2u);
  etcdAuthority = {kj::str(next.certificate), next.key.clone()};
  acceptedAuthorities.clear();
  acceptedAuthorities.add(kj::str(old.certificate));
  acceptedAuthorities.add(pki::crossSign(old.certificate, old.key, next.certificate));
  settle();
  EXPECT_EQ(both, trusted(kEtcdId));
  EXPECT_EQ(signedBy(next.certificate), 3u);
  EXPECT_EQ(chains(old.certificate), 2u);
  acceptedAuthorities.clear();
  settle();
  EXPECT_EQ(trusted(kEtcdId), next.certificate);
  EXPECT_EQ(trusted(kEtcdClientId), next.certificate);
  EXPECT_EQ(signedBy(next.certificate), 3u);
  EXPECT_EQ(chains(next.certificate), 2u);
  // A signature by a CA that is not accepted.
  acceptedAuthorities.add(pki::crossSign(old.certificate, old.key, next.certificate));
  settle();
  EXPECT_EQ(trusted(kEtcdId), next.certificate);
  EXPECT_EQ(chains(old.certificate), 2u);
}

}  // namespace
}  // namespace talos::machined
