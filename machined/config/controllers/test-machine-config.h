// For tests of the controllers whose input is the machine config: a store, a runtime, and a config
// that the test changes.
#pragma once

#include <kj/async-io.h>

#include "common/base/error.h"
#include "common/config/config.h"
#include "machined/config/controllers/controller-parts.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"

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

// As a good document is known; InvalidArgument with its problems for another.
inline KnownConfig knownConfig(kj::StringPtr document) {
  auto parsed = config::parse(document.asArray());
  if (!parsed.good()) fail(ErrorKind::kInvalidArgument, render(parsed.problems()));
  return KnownConfig(parsed.bytes(), parsed.get());
}
inline MachineConfigView viewMachineConfig(kj::StringPtr document) {
  return viewOf(knownConfig(document).get());
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

  // For controllers that read what is published.
  KernelArguments arguments{""_kj.asArray()};
  UserSysctls sysctls{"/nowhere", "/nowhere"};
  MachineConfigReader config;
  kj::Vector<kj::String> warnings;
  ControllerParts parts{arguments,
                        uv,
                        timer,
                        clock,
                        config,
                        sysctls,
                        [this](kj::StringPtr text) { warnings.add(kj::str(text)); },
                        [] { return false; }};

  void publish(kj::StringPtr document) {
    auto parsed = config::parse(document.asArray());
    config.know(KnownConfig(parsed.bytes(), parsed.get()));
    putRecord<rpc::MachineConfigSpec>(store, kMachineConfigId,
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

  template <typename F>
  static kj::StringPtr kindOfFailure(F&& f) {
    return StoreTest::kindOfFailure(kj::fwd<F>(f));
  }
  // A status as networkd writes it.
  template <typename Spec, typename Fill>
  void put(kj::StringPtr id, Fill&& fill) {
    putRecord<Spec>(store, id, kj::fwd<Fill>(fill), "networkd");
  }
};

// A worker's config with these items of machine.network.interfaces, as lines indented by six.
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
