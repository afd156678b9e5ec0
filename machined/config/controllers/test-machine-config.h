// For tests of the controllers whose input is the machine config: a store, a runtime, and a config
// that the test changes.
#pragma once

#include <kj/async-io.h>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/config/config.h"
#include "common/tls/node-certificate.h"
#include "common/tls/pki.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/process1/test-process1.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "machined/system/test-watchdog-devices.h"

namespace talos::machined {

inline kj::Array<kj::String> texts(std::initializer_list<kj::StringPtr> list) {
  return KJ_MAP(text, list) {
    return kj::str(text);
  };
}

inline kj::String joined(kj::ArrayPtr<const kj::String> list) {
  return kj::strArray(list, " ");
}

template <typename Spec>
void destroyRecord(Store& store, kj::StringPtr id) {
  store.destroy("", typeName<Spec>(), id, kBrainOwner);
}

// Throws InvalidArgument with the problems of an invalid document.
inline KnownConfig knownConfig(kj::StringPtr document) {
  auto parsed = config::parse(document.asArray());
  if (!parsed.good()) fail(ErrorKind::kInvalidArgument, render(parsed.problems()));
  return KnownConfig(parsed.bytes(), parsed.get());
}
inline void setPair(config::CertificateAndKey::Builder out, const pki::CertificateAndKey& pair,
                    bool withKey = true) {
  out.setCrt(pair.certificate.asBytes());
  if (withKey) out.setKey(pair.key.bytes());
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
  config::MachineType type = config::MachineType::CONTROLPLANE;
  kj::Duration lifetime = kDefaultLifetime;
  kj::StringPtr token = "abcdef.0123456789abcdef";
  kj::Vector<kj::String> accepted;  // additional accepted CAs, PEM
  kj::Array<kj::String> hosts = texts({"vip.example.org", "10.5.0.9"});
  kj::Function<void(config::Network::Builder)> network = [](config::Network::Builder) {};
  ControllerRuntime runtime{store, [this](kj::StringPtr line) { log = kj::str(log, line); }, timer,
                            clock, [] { return 0.5; }};

  // The dependencies of controllers that read the published config.
  KernelArguments arguments{""_kj.asArray()};
  KernelSettings kernel{{"/nowhere", "/nowhere"},
                        {"/nowhere", "/nowhere/pci", KernelScope::kNetwork},
                        {"/nowhere"},
                        {"/nowhere", "/nowhere"}};
  FakeMachine machine;
  FakeProcess1 process1{machine};
  TestWatchdogs watchdogs;
  Watchdog watchdog{uv, process1, watchdogs, KernelScope::kAll};
  MachineConfigReader config;
  kj::Vector<kj::String> warnings;
  ControllerDependencies deps{.arguments = arguments,
                              .platform = "container",
                              .uv = uv,
                              .port = io.unixEventPort,
                              .timer = timer,
                              .clock = clock,
                              .config = config,
                              .kernel = kernel,
                              .watchdog = watchdog,
                              .warn = [this](kj::StringPtr text) { warnings.add(kj::str(text)); },
                              .showsStateToAnybody = [] { return false; }};

  void publish(kj::StringPtr document) {
    auto parsed = config::parse(document.asArray());
    config.know(KnownConfig(parsed.bytes(), parsed.get()));
    putRecord<rpc::MachineConfigSpec>(store, kMachineConfigId,
                                      [&](auto spec) { spec.setDocument(document); });
  }

  pki::CertificateAndKey makeAuthority() {
    return pki::makeAuthority({.organization = "talos", .notBefore = clock.time - 1 * kj::DAYS});
  }
  // Builds the config of the fields above; valid until the next call.
  config::Config::Builder build() {
    auto& message = *built.emplace(kj::heap<capnp::MallocMessageBuilder>());
    auto root = message.initRoot<config::Config>();
    auto machine = root.getMachine();
    machine.setType(type);
    machine.setToken(token);
    setPair(machine.getCa(), authority, withKey);
    auto others = machine.initAcceptedCAs(accepted.size());
    for (auto i : kj::indices(accepted)) others[i].setCrt(accepted[i].asBytes());
    machine.initCertSANs(1).set(0, "api.example.org");
    network(machine.getNetwork());
    auto cluster = root.getCluster();
    fillTexts(cluster.getApiServer().initCertSANs(hosts.size()), hosts);
    cluster.getTrustd().setCertLifetime(kj::str(lifetime / kj::SECONDS, "s"));
    return root;
  }
  kj::Maybe<config::Config::Reader> read() {
    if (!present) return nullptr;
    return build().asReader();
  }
  auto reader() {
    return [this](Store&) { return read(); };
  }
  void poll() { io.waitScope.poll(); }
  kj::Maybe<kj::Own<capnp::MallocMessageBuilder>> built;

  template <typename F>
  static kj::StringPtr kindOfFailure(F&& f) {
    return StoreTest::kindOfFailure(kj::fwd<F>(f));
  }
  // Writes a status as networkd does.
  template <typename Spec, typename Fill>
  void put(kj::StringPtr id, Fill&& fill) {
    putRecord<Spec>(store, id, kj::fwd<Fill>(fill), "networkd");
  }
};

// Returns a worker's config with these items of machine.network.interfaces, as lines indented by
// six.
inline kj::String configWithInterfaces(kj::StringPtr interfaces) {
  return kj::str(
      "version: v1alpha1\n"
      "machine:\n"
      "  type: worker\n"
      "  token: abcdef.0123456789abcdef\n"
      "  install: {disk: /dev/sda}\n"
      "  network:\n"
      "    interfaces:\n",
      interfaces,
      "cluster:\n"
      "  controlPlane: {endpoint: 'https://10.0.0.1:6443'}\n");
}

}  // namespace talos::machined
