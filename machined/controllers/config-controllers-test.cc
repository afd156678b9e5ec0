// The controllers whose input is the machine config: network, API certificates, machine type.
#include <kj/async-io.h>
#include <kj/encoding.h>

#include "common/roles.h"
#include "machined/controllers/api-certificates.h"
#include "machined/controllers/api-names.h"
#include "machined/controllers/machine-type.h"
#include "machined/controllers/network.h"
#include "machined/controllers/root-secrets.h"
#include "machined/records.h"
#include "machined/resources/store-fixture.h"
#include "rpc/local.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kCertificates = "ApiCertificates.secrets.talos.dev"_kj;

constexpr kj::StringPtr kRoots = "RootSecrets.secrets.talos.dev"_kj;

kj::Array<kj::String> texts(std::initializer_list<kj::StringPtr> list) {
  return KJ_MAP(text, list) {
    return kj::str(text);
  };
}

kj::String joined(kj::ArrayPtr<const kj::String> list) {
  return kj::strArray(list, " ");
}

struct ConfigTest : public testing::Test {
  ~ConfigTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  Registry registry;
  TestClock clock;
  Store store{registry, clock};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  kj::String log = kj::str("");
  pki::CertificateAndKey authority = makeAuthority();
  bool present = true, withKey = true;
  rpc::MachineType type = rpc::MachineType::CONTROLPLANE;
  kj::Duration lifetime = kDefaultLifetime;
  kj::StringPtr token = "abcdef.0123456789abcdef";
  kj::Array<kj::String> hosts = texts({"vip.example.org", "10.5.0.9"});
  kj::Function<void(NetworkConfig&)> network = [](NetworkConfig&) {};
  ControllerRuntime runtime{store, [this](kj::StringPtr line) { log = kj::str(log, line); }, timer,
                            clock, [] { return 0.5; }};

  void publish(kj::StringPtr document) {
    putRecord<rpc::MachineConfigSpec>(store, "", kMachineConfigs, kMachineConfigId,
                                      [&](auto spec) { spec.setDocument(document); });
  }

  pki::CertificateAndKey makeAuthority() {
    return pki::makeAuthority({.organization = "talos", .notBefore = clock.time - 1 * kj::DAYS});
  }
  kj::Maybe<MachineConfigView> read() {
    if (!present) return nullptr;
    MachineConfigView view;
    view.type = type;
    view.authority = kj::str(authority.certificate);
    if (withKey) view.authorityKey = authority.key.clone();
    view.certSans.add(kj::str("api.example.org"));
    view.trust.certLifetime = lifetime;
    view.trust.token = pki::Pem(kj::str(token));
    for (auto& host : hosts) view.trust.hosts.add(kj::str(host));
    network(view.network);
    return kj::mv(view);
  }
  auto reader() {
    return [this](Store&) { return read(); };
  }
  void poll() { io.waitScope.poll(); }

  // Until the API certificates have this version.
  void awaitCertificates(uint64_t version) {
    for (;;) {
      KJ_IF_MAYBE (stored, store.tryGet("", kCertificates, "api")) {
        if (stored->getMetadata().getVersion() >= version) return;
      }
      auto paf = kj::newPromiseAndFulfiller<void>();
      auto handle = store.onChange("", kCertificates, [&] { paf.fulfiller->fulfill(); });
      paf.promise.wait(io.waitScope);
    }
  }
  rpc::ApiCertificateSpec::Reader certificates() {
    return store.get("", kCertificates, "api").getSpec().getAs<rpc::ApiCertificateSpec>();
  }
  uint64_t version() { return store.get("", kCertificates, "api").getMetadata().getVersion(); }
  template <typename F>
  static kj::StringPtr kindOfFailure(F&& f) {
    return StoreTest::kindOfFailure(kj::fwd<F>(f));
  }
  static pki::CertificateInfo inspect(capnp::Data::Reader pem) {
    return pki::inspect(kj::str(pem.asChars()));
  }

  // A status as networkd writes it.
  template <typename Spec, typename Fill>
  void put(kj::StringPtr type, kj::StringPtr id, Fill&& fill) {
    putRecord<Spec>(store, "", type, id, kj::fwd<Fill>(fill), "networkd");
  }
  void putAddress(kj::StringPtr address) {
    put<rpc::NodeAddressSpec>("NodeAddresses.net.talos.dev", "accumulative",
                              [&](auto spec) { spec.initAddresses(1).set(0, address); });
  }
  void addApi() { runtime.add(kj::heap<ApiController>(uv, timer, clock, reader())); }
};

TEST_F(ConfigTest, ApiCertificatesHaveTheNodesNamesAndRoles) {
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

// The quirk of the original: new certificates on every wake-up restart whatever uses them.
TEST_F(ConfigTest, ApiCertificatesAreMadeAnewOnlyWhenTheirInputsChangeOrHalfTheirLifeIsOver) {
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
  timer.advanceTo(timer.now() + 2 * kj::HOURS);  // it looks at the clock by itself
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

// Catches: a lifetime of seconds that is renewed for ever, or never.
TEST_F(ConfigTest, ApiCertificatesHaveTheLifetimeOfTheConfig) {
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

// Catches: a worker, or a machine without the key, with secrets that it must not have; names of the
// control plane that others could have a certificate for; changes that restart nothing but noise.
TEST_F(ConfigTest, WhatTrustdSignsWithIsThereOnControlPlanesOnly) {
  auto version = [&]() -> uint64_t {
    poll();
    KJ_IF_MAYBE (stored, store.tryGet("", kRoots, "os")) return stored->getMetadata().getVersion();
    return 0;
  };
  putAddress("10.5.0.2/24");
  put<rpc::HostnameSpecSpec>(kHostnames, "hostname", [](auto spec) {
    spec.setHostname("cp1");
    spec.setDomainname("example.org");
  });
  runtime.add(kj::heap<RootController>(reader()));
  ASSERT_EQ(version(), 1u);
  auto os = store.get("", kRoots, "os").getSpec().getAs<rpc::RootSecretSpec>().getOs();
  EXPECT_EQ(kj::str(os.getCa().getKey().asChars()), kj::StringPtr(authority.key));
  EXPECT_EQ(os.getToken(), token);
  EXPECT_EQ(kj::strArray(os.getReserved(), " "),
            "10.5.0.2 10.5.0.9 api.example.org cp1 cp1.example.org vip.example.org");
  EXPECT_EQ(kj::strArray(os.getCertSANs(), " "), "api.example.org");
  EXPECT_EQ(os.getCertLifetimeS(), 24u * 3600);

  runtime.poke("secrets.RootController");
  hosts = texts({"10.5.0.9", "vip.example.org"});
  runtime.poke("secrets.RootController");
  EXPECT_EQ(version(), 1u);
  putAddress("10.5.0.3/24");
  EXPECT_EQ(version(), 2u);
  for (auto worker : {rpc::MachineType::JOIN, rpc::MachineType::UNKNOWN}) {
    type = worker;
    runtime.poke("secrets.RootController");
    EXPECT_EQ(version(), 0u);
    type = rpc::MachineType::INIT;
    runtime.poke("secrets.RootController");
    EXPECT_EQ(version(), 1u);
  }
  withKey = false;
  runtime.poke("secrets.RootController");
  EXPECT_EQ(version(), 0u);
  withKey = true;
  token = "";
  runtime.poke("secrets.RootController");
  EXPECT_EQ(version(), 0u);
}

// Catches: a controller that takes away what apid got from trustd, or leaves its own in the way.
TEST_F(ConfigTest, WithoutTheAuthoritysKeyTheCertificatesAreApids) {
  addApi();
  awaitCertificates(1);
  withKey = false;
  runtime.poke("secrets.ApiController");
  poll();
  EXPECT_TRUE(store.tryGet("", kCertificates, "api") == nullptr);
  put<rpc::ApiCertificateSpec>(kCertificates, "api", [](auto spec) { spec.initServer(); });
  runtime.poke("secrets.ApiController");
  poll();
  EXPECT_TRUE(store.tryGet("", kCertificates, "api") != nullptr);
  EXPECT_TRUE(strstr(log.cStr(), "failed") == nullptr) << log.cStr();
}

// Catches: a fingerprint that changes under an operator's eyes, a throw-away certificate that stays
// in use or lends its key to the real one.
TEST_F(ConfigTest, InMaintenanceTheCertificateIsThrowAwayAndItsKeyStays) {
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
  auto told = print();
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
  EXPECT_EQ(told, print());
  clock.time += 13 * kj::HOURS;
  timer.advanceTo(timer.now() + 2 * kj::HOURS);
  awaitCertificates(3);
  EXPECT_EQ(told, print());

  maintenance = false;
  present = true;
  runtime.poke("secrets.ApiController");
  awaitCertificates(4);
  EXPECT_FALSE(certificates().getMaintenance());
  EXPECT_EQ(kj::str(certificates().getCa().asChars()), authority.certificate);
  EXPECT_NE(told, print());
}

// Catches: a machine whose config cannot give it certificates, and that stays open to everybody.
TEST_F(ConfigTest, AConfigEndsTheThrowAwayCertificateInAnyCase) {
  present = false;
  bool maintenance = true;
  runtime.add(kj::heap<ApiController>(uv, timer, clock, reader(), [&] { return maintenance; }));
  awaitCertificates(1);
  maintenance = false;
  present = true;
  withKey = false;
  runtime.poke("secrets.ApiController");
  poll();
  EXPECT_TRUE(store.tryGet("", kCertificates, "api") == nullptr);
}

TEST_F(ConfigTest, NothingIsIssuedBeforeThereIsAConfig) {
  present = false;
  addApi();
  poll();
  EXPECT_TRUE(store.tryGet("", kCertificates, "api") == nullptr);
  EXPECT_TRUE(strstr(log.cStr(), "failed") == nullptr) << log.cStr();
}

TEST_F(ConfigTest, TheMachineTypeFollowsTheConfig) {
  auto shown = [&] {
    poll();
    return store.get("", "mt", "machine-type").getSpec().getAs<rpc::MachineTypeSpec>().getType();
  };
  present = false;
  runtime.add(kj::heap<MachineTypeController>(reader()));
  EXPECT_EQ(shown(), rpc::MachineType::UNKNOWN);
  present = true;
  runtime.poke("config.MachineTypeController");
  EXPECT_EQ(shown(), rpc::MachineType::CONTROLPLANE);
  type = rpc::MachineType::JOIN;
  runtime.poke("config.MachineTypeController");
  EXPECT_EQ(shown(), rpc::MachineType::JOIN);
}

// What networkd is given: the ids are what users see, so they must not depend on the order of
// things.
TEST_F(ConfigTest, TheNetworksSpecsFollowCommandLineConfigAndLinks) {
  auto ids = [&] {
    poll();
    kj::Vector<kj::String> result;
    for (auto type : {"LinkSpecs.net.talos.dev"_kj, "AddressSpecs.net.talos.dev"_kj,
                      "RouteSpecs.net.talos.dev"_kj}) {
      for (auto r : store.list("", type)) result.add(kj::str(r.getMetadata().getId()));
    }
    return joined(result);
  };
  auto hostname = [&] {
    return kj::str(store.get("", kHostnames, "hostname")
                       .getSpec()
                       .getAs<rpc::HostnameSpecSpec>()
                       .getHostname());
  };
  present = false;
  KernelArguments arguments("ip=10.5.0.2::10.5.0.1:255.255.255.0:node"_kj.asArray());
  runtime.add(kj::heap<NetworkController>(arguments, reader()));
  EXPECT_EQ(ids(), "") << "no link is known yet";
  EXPECT_EQ(hostname(), "node");
  put<rpc::LinkStatusSpec>("LinkStatuses.net.talos.dev", "lo", [](auto spec) {
    spec.setIndex(1);
    spec.setType("loopback");
  });
  put<rpc::LinkStatusSpec>("LinkStatuses.net.talos.dev", "eth0", [](auto spec) {
    spec.setIndex(2);
    spec.setType("ether");
  });
  EXPECT_EQ(ids(), "eth0 eth0/10.5.0.2/24 eth0/inet4/10.5.0.1//10");
  auto route = store.get("", "RouteSpecs.net.talos.dev", "eth0/inet4/10.5.0.1//10")
                   .getSpec()
                   .getAs<rpc::RouteSpecSpec>();
  EXPECT_EQ(route.getDestination(), "");
  EXPECT_EQ(route.getGateway(), "10.5.0.1");
  EXPECT_EQ(route.getMetric(), 10u);
  EXPECT_EQ(route.getLayer(), "cmdline");

  present = true;
  network = [](NetworkConfig& config) {
    config.hostname = kj::str("configured");
    auto& device = config.devices.add();
    device.interface = kj::str("eth0");
    device.addresses.add(kj::str("192.168.1.5/24"));
    device.routes.add(NetworkConfig::Route{kj::str("10.9.0.0/16"), kj::str("192.168.1.9"), 77});
  };
  runtime.poke("network.ConfigController");
  EXPECT_EQ(ids(), "eth0 eth0/192.168.1.5/24 eth0/inet4/192.168.1.9/10.9.0.0/16/77");
  EXPECT_EQ(hostname(), "configured");
  auto address = store.get("", "AddressSpecs.net.talos.dev", "eth0/192.168.1.5/24")
                     .getSpec()
                     .getAs<rpc::AddressSpecSpec>();
  EXPECT_EQ(address.getScope(), "global");
  EXPECT_EQ(address.getFamily(), "inet4");
  EXPECT_EQ(address.getLinkName(), "eth0");
}

// Catches: specs for a look ahead that are others than those that would be stored, or that are
// stored.
TEST_F(ConfigTest, TheSpecsOfAnotherConfigAreThoseThatItWouldGive) {
  KernelArguments arguments("ip=dhcp"_kj.asArray());
  put<rpc::LinkStatusSpec>("LinkStatuses.net.talos.dev", "eth0", [](auto spec) {
    spec.setIndex(2);
    spec.setType("ether");
  });
  NetworkConfig config;
  auto& device = config.devices.add();
  device.interface = kj::str("eth0");
  device.addresses.add(kj::str("192.168.1.5/24"));
  device.routes.add(NetworkConfig::Route{kj::str("10.9.0.0/16"), kj::str("192.168.1.9"), 77});
  kj::Vector<kj::String> ids;
  {
    NetworkSpecs specs(arguments, config, store);
    capnp::MallocMessageBuilder message;
    auto list = message.initRoot<rpc::Networkd::PlanParams>().initSpecs(specs.size());
    specs.fill(list);
    for (auto one : list.asReader()) {
      ids.add(kj::str(one.getMetadata().getType(), " ", one.getMetadata().getId()));
      if (one.getMetadata().getType() == "AddressSpecs.net.talos.dev") {
        EXPECT_EQ(one.getSpec().getAs<rpc::AddressSpecSpec>().getAddress(), "192.168.1.5/24");
      }
    }
  }
  EXPECT_EQ(kj::strArray(ids, ", "),
            "LinkSpecs.net.talos.dev eth0, AddressSpecs.net.talos.dev eth0/192.168.1.5/24, "
            "RouteSpecs.net.talos.dev eth0/inet4/192.168.1.9/10.9.0.0/16/77");
  EXPECT_EQ(store.list("", "LinkSpecs.net.talos.dev").size(), 0u);
}

// Catches: an option of a route or a VLAN that ends somewhere between the config and the spec.
TEST_F(ConfigTest, OptionsOfRoutesAndVlansAreInTheirSpecs) {
  NetworkConfig config;
  auto& device = config.devices.add();
  device.interface = kj::str("eth0");
  device.addresses.add(kj::str("10.0.0.2/24"));
  device.routes.add(NetworkConfig::Route{.network = kj::str("10.9.0.0/16"),
                                         .gateway = kj::str("192.168.1.9"),
                                         .source = kj::str("10.0.0.2"),
                                         .mtu = 1400,
                                         .onlink = true});
  device.routes.add(NetworkConfig::Route{.network = kj::str("10.8.0.0/16"),
                                         .gateway = kj::str(),
                                         .type = config::RouteType::PROHIBIT});
  auto& vlan = device.vlans.add();
  vlan.id = 5;
  vlan.mtu = 1380;
  KernelArguments arguments(""_kj.asArray());
  NetworkSpecs specs(arguments, config, store);
  capnp::MallocMessageBuilder message;
  auto list = message.initRoot<rpc::Networkd::PlanParams>().initSpecs(specs.size());
  specs.fill(list);
  kj::Vector<kj::String> seen;
  for (auto one : list.asReader()) {
    auto id = one.getMetadata().getId();
    auto type = one.getMetadata().getType();
    if (type == "LinkSpecs.net.talos.dev" && id == "eth0.5") {
      seen.add(kj::str("mtu ", one.getSpec().getAs<rpc::LinkSpecSpec>().getMtu()));
    }
    if (type != "RouteSpecs.net.talos.dev") continue;
    auto route = one.getSpec().getAs<rpc::RouteSpecSpec>();
    seen.add(kj::str(id, ": ", route.getLinkName(), " ", route.getSource(), " ", route.getMtu(),
                     " ", route.getOnlink(), " ", route.getType()));
  }
  EXPECT_EQ(kj::strArray(seen, ", "),
            "mtu 1380, eth0/inet4/192.168.1.9/10.9.0.0/16/10: eth0 10.0.0.2 1400 true unicast, "
            "prohibit/inet4//10.8.0.0/16/10:   0 false prohibit");
}

// Catches: a selector that sees in a bond what the bond has given its members, a link that networkd
// made, or one that is no hardware.
TEST_F(ConfigTest, SelectorsSeeWhatALinkIsByItself) {
  struct Row {
    kj::StringPtr name, address, permanent, memberKind, kind;
    bool made;
  };
  unsigned index = 1;
  for (auto& row : {Row{"eth0", "02:00:00:00:00:99", "02:00:00:00:00:01", "bond", "", false},
                    Row{"eth1", "02:00:00:00:00:02", "02:00:00:00:00:07", "bridge", "", false},
                    Row{"eth2", "02:00:00:00:00:08", "", "bond", "", false},
                    Row{"bond0", "02:00:00:00:00:99", "", "", "bond", true},
                    Row{"veth0", "02:00:00:00:00:04", "", "", "veth", false}}) {
    put<rpc::LinkStatusSpec>("LinkStatuses.net.talos.dev", row.name, [&](auto spec) {
      spec.setIndex(++index);
      spec.setType("ether");
      spec.setHardwareAddress(row.address);
      spec.setPermanentAddress(row.permanent);
      spec.setMemberKind(row.memberKind);
      spec.setKind(row.kind);
      spec.setLogical(row.made);
    });
  }
  KernelArguments arguments(""_kj.asArray());
  auto chosen = [&](kj::StringPtr address, bool physical) {
    NetworkConfig config;
    auto& device = config.devices.add();
    auto& selector = device.selector.emplace();
    selector.hardwareAddress = kj::str(address);
    selector.physical = physical;
    device.addresses.add(kj::str("10.0.0.2/24"));
    NetworkSpecs specs(arguments, config, store);
    capnp::MallocMessageBuilder message;
    auto list = message.initRoot<rpc::Networkd::PlanParams>().initSpecs(specs.size());
    specs.fill(list);
    for (auto one : list.asReader()) {
      if (one.getMetadata().getType() == "LinkSpecs.net.talos.dev") {
        auto problem = one.getSpec().getAs<rpc::LinkSpecSpec>().getProblem();
        if (problem.size() > 0) return kj::str(problem);
      }
      if (one.getMetadata().getType() != "AddressSpecs.net.talos.dev") continue;
      return kj::str(one.getSpec().getAs<rpc::AddressSpecSpec>().getLinkName());
    }
    return kj::str("none");
  };
  EXPECT_EQ(chosen("02:00:00:00:00:01", true), "eth0");
  EXPECT_EQ(chosen("02:00:00:00:00:02", false), "eth1");
  EXPECT_EQ(chosen("02:00:00:00:00:08", false), "eth2") << "it has no other";
  EXPECT_EQ(chosen("02:00:00:00:00:99", false),
            "deviceSelector hardwareAddr=02:00:00:00:00:99: there is no such link");
  EXPECT_EQ(chosen("02:00:00:00:00:04", false), "veth0");
  EXPECT_EQ(chosen("02:00:00:00:00:04", true),
            "deviceSelector hardwareAddr=02:00:00:00:00:04,physical: there is no such link");
}

// The document as machined stores it, to what the controllers read.
TEST_F(ConfigTest, AStoredDocumentBecomesTheView) {
  auto base64 = [](kj::StringPtr text) { return kj::encodeBase64(text.asBytes()); };
  auto pair =
      kj::str("{crt: ", base64(authority.certificate), ", key: ", base64(authority.key), "}");
  auto document = kj::str(
      "version: v1alpha1\n"
      "machine:\n"
      "  type: controlplane\n"
      "  token: abcdef.0123456789abcdef\n"
      "  ca: ",
      pair,
      "\n"
      "  certSANs: [api.example.org, 1.2.3.4]\n"
      "  network:\n"
      "    hostname: master-1\n"
      "    nameservers: [10.5.0.1]\n"
      "    interfaces:\n"
      "      - interface: eth0\n"
      "        cidr: 10.5.0.2/24\n"
      "        mtu: 1400\n"
      "        routes:\n"
      "          - network: 0.0.0.0/0\n"
      "            gateway: 10.5.0.1\n"
      "            metric: 20\n"
      "      - interface: eth1\n"
      "        ignore: true\n"
      "  install: {disk: /dev/vda}\n"
      "cluster:\n"
      "  controlPlane: {endpoint: https://10.5.0.2:6443}\n"
      "  apiServer: {certSANs: [k8s.example.org]}\n"
      "  trustd: {endpoints: [10.5.0.3], certLifetime: 30m, anyAddress: true}\n"
      "  network: {dnsDomain: cluster.local, podSubnets: [10.244.0.0/16]}\n"
      "  token: abcdef.0123456789abcdef\n"
      "  ca: ",
      pair,
      "\n"
      "  aggregatorCA: ",
      pair,
      "\n"
      "  serviceAccount: {key: ",
      base64(authority.key),
      "}\n"
      "  etcd: {ca: ",
      pair, "}\n");
  EXPECT_TRUE(storedMachineConfig(store) == nullptr);
  publish(document);
  auto found = storedMachineConfig(store);
  auto& view = KJ_ASSERT_NONNULL(found);
  EXPECT_EQ(view.type, rpc::MachineType::CONTROLPLANE);
  EXPECT_EQ(view.authority, authority.certificate);
  EXPECT_EQ(kj::StringPtr(view.authorityKey), kj::StringPtr(authority.key));
  EXPECT_EQ(joined(view.certSans), "api.example.org 1.2.3.4");
  EXPECT_EQ(joined(view.trust.hosts), "10.5.0.2 k8s.example.org 10.5.0.3");
  EXPECT_EQ(kj::StringPtr(view.trust.token), "abcdef.0123456789abcdef");
  EXPECT_EQ(view.trust.dnsDomain, "cluster.local");
  EXPECT_EQ(view.trust.certLifetime / kj::MINUTES, 30);
  EXPECT_TRUE(view.trust.anyAddress);
  EXPECT_EQ(view.network.hostname, "master-1");
  EXPECT_EQ(joined(view.network.nameservers), "10.5.0.1");
  ASSERT_EQ(view.network.devices.size(), 2u);
  auto& device = view.network.devices[0];
  EXPECT_EQ(device.interface, "eth0");
  EXPECT_EQ(joined(device.addresses), "10.5.0.2/24");
  EXPECT_EQ(device.mtu, 1400u);
  ASSERT_EQ(device.routes.size(), 1u);
  EXPECT_EQ(device.routes[0].gateway, "10.5.0.1");
  EXPECT_EQ(device.routes[0].metric, 20u);
  EXPECT_TRUE(view.network.devices[1].ignore);
  EXPECT_EQ(kindOfFailure([] { viewMachineConfig("machine: [not, a, config]"); }),
            "InvalidArgument");
}

// Would catch: a document that is parsed again for every reader, or one that stays when it was
// replaced.
TEST_F(ConfigTest, ADocumentIsParsedOncePerVersion) {
  MachineConfigReader reader;
  EXPECT_TRUE(reader.document(store) == nullptr);
  publish("machine:\n    type: init\n");
  auto first = KJ_ASSERT_NONNULL(reader.document(store)).bytes();
  EXPECT_EQ(KJ_ASSERT_NONNULL(reader.document(store)).bytes().begin(), first.begin());
  publish("machine:\n    type: worker\n");
  auto& second = KJ_ASSERT_NONNULL(reader.document(store));
  EXPECT_EQ(kj::str(second.bytes()), "machine:\n    type: worker\n");
  destroyRecord(store, "", kMachineConfigs, kMachineConfigId);
  EXPECT_TRUE(reader.document(store) == nullptr);
  EXPECT_TRUE(reader.view(store) == nullptr);
}

// Would catch: what was checked before it is published parsed a second time, or taken for what
// another wrote.
TEST_F(ConfigTest, ADocumentThatIsKnownIsParsedOnce) {
  MachineConfigReader reader;
  auto text = "machine:\n    type: init\n"_kj;
  auto checked = config::parse(text, "test");
  auto bytes = checked.bytes();
  reader.know(kj::mv(checked));
  publish(text);
  EXPECT_EQ(KJ_ASSERT_NONNULL(reader.document(store)).bytes().begin(), bytes.begin());
  reader.know(config::parse("machine:\n    type: worker\n"_kj, "test"));
  EXPECT_EQ(kj::str(KJ_ASSERT_NONNULL(reader.document(store)).bytes()), text);
}

}  // namespace
}  // namespace talos::machined
