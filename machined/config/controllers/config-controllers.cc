// The controllers whose only input is the machine config, and that publish a part of it.
#include "common/base/fill-list.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/controllers/host-dns-controller.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/metrics-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {

// config.FeaturesController: publishes the features of a node, which clients of Talos
// request, and the policy by which pods get access to the API. There is no discovery, whatever the
// config says.
namespace {

void fill(rpc::KubernetesAccessConfigSpec::Builder out, config::PodApiAccess::Reader access) {
  out.setEnabled(access.getEnabled());
  auto roles = access.getAllowedRoles();
  auto names = out.initAllowedApiRoles(roles.size());
  for (auto i : kj::indices(roles)) names.set(i, roleName(roles[i]));
  out.setAllowedKubernetesNamespaces(access.getAllowedKubernetesNamespaces());
}

class FeaturesController final : public Controller {
 public:
  explicit FeaturesController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "config.FeaturesController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
  }
  kj::Array<kj::StringPtr> outputs() const override {
    return typeNames<rpc::ClusterInfoSpec, rpc::DiscoveryConfigSpec,
                     rpc::KubernetesAccessConfigSpec>();
  }

  kj::Promise<void> reconcile(Store& store) override {
    Outputs<rpc::ClusterInfoSpec> clusters(name());
    Outputs<rpc::DiscoveryConfigSpec> discovery(name());
    Outputs<rpc::KubernetesAccessConfigSpec> access(name());
    KJ_IF_MAYBE (c, config.tryConfig(store)) {
      clusters.add("current").setClusterName(c->getCluster().getClusterName());
      discovery.add("cluster");
      auto type = machineTypeOf(*c);
      if (type == rpc::MachineType::INIT || type == rpc::MachineType::CONTROLPLANE) {
        fill(access.add("config"), c->getMachine().getFeatures().getKubernetesTalosAPIAccess());
      }
    }
    clusters.apply(store);
    discovery.apply(store);
    access.apply(store);
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
};

}  // namespace

kj::Own<Controller> featuresController(ControllerDependencies& deps) {
  return kj::heap<FeaturesController>(deps.config);
}

// config.MachineTypeController: publishes config/MachineTypes[machine-type], `unknown` before there
// is a config.
namespace {

class MachineTypeController final : public Controller {
 public:
  explicit MachineTypeController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "config.MachineTypeController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
  }
  kj::Array<kj::StringPtr> outputs() const override { return typeNames<rpc::MachineTypeSpec>(); }

  kj::Promise<void> reconcile(Store& store) override {
    Outputs<rpc::MachineTypeSpec> outputs(name());
    auto spec = outputs.add("machine-type");
    spec.setType(rpc::MachineType::UNKNOWN);
    KJ_IF_MAYBE (c, config.tryConfig(store)) spec.setType(machineTypeOf(*c));
    outputs.apply(store);
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
};

}  // namespace

kj::Own<Controller> machineTypeController(ControllerDependencies& deps) {
  return kj::heap<MachineTypeController>(deps.config);
}

// config.MetadataBlockController: publishes MetadataBlockSpecs/<platform>, the addresses that
// networkd blocks for pods, unless machine.features.podMetadataAccess permits them. Before there is
// a config there are no pods; while a restarted brain does not know the config, its predecessor's
// spec stays.
namespace {

class MetadataBlockController final : public Controller {
 public:
  explicit MetadataBlockController(ControllerDependencies& deps) : deps(deps) {}

  kj::StringPtr name() const override { return "config.MetadataBlockController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
  }
  kj::Array<kj::StringPtr> outputs() const override {
    return typeNames<rpc::MetadataBlockSpecSpec>();
  }

  kj::Promise<void> reconcile(Store& store) override {
    KJ_IF_MAYBE (machine, deps.config.tryMachine(store)) {
      Outputs<rpc::MetadataBlockSpecSpec> outputs(name());
      if (deps.metadataAddresses.size() > 0 && !machine->getFeatures().getPodMetadataAccess()) {
        fillTexts(outputs.add(deps.platform).initAddresses(deps.metadataAddresses.size()),
                  deps.metadataAddresses);
      }
      outputs.apply(store);
    }
    return kj::READY_NOW;
  }

 private:
  ControllerDependencies& deps;
};

}  // namespace

kj::Own<Controller> metadataBlockController(ControllerDependencies& deps) {
  return kj::heap<MetadataBlockController>(deps);
}

// config.FirewallController: publishes FirewallSpecs/firewall, the packets to the node that
// networkd accepts, if the config blocks by default or has a rule. While a restarted brain does not
// know the config, its predecessor's spec stays.
namespace {

class FirewallController final : public Controller {
 public:
  explicit FirewallController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "config.FirewallController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
  }
  kj::Array<kj::StringPtr> outputs() const override { return typeNames<rpc::FirewallSpecSpec>(); }

  kj::Promise<void> reconcile(Store& store) override {
    KJ_IF_MAYBE (c, config.tryConfig(store)) {
      Outputs<rpc::FirewallSpecSpec> outputs(name());
      auto firewall = c->getMachine().getNetwork().getFirewall();
      if (firewall.getBlock() || firewall.getRules().size() > 0) {
        auto spec = outputs.add("firewall");
        spec.setBlock(firewall.getBlock());
        spec.setRules(firewall.getRules());
        auto pods = config::podSubnets(c->getCluster()),
             services = config::serviceSubnets(c->getCluster());
        fillTexts(spec.initPodSubnets(static_cast<unsigned>(pods.size())), pods);
        fillTexts(spec.initServiceSubnets(static_cast<unsigned>(services.size())), services);
        auto resolver = hostDnsOf(*c).serviceAddresses;
        auto addresses = spec.initHostDnsAddresses(static_cast<unsigned>(resolver.size()));
        for (auto i : kj::indices(resolver)) addresses.set(i, resolver[i].toString());
      }
      outputs.apply(store);
    }
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
};

}  // namespace

kj::Own<Controller> firewallController(ControllerDependencies& deps) {
  return kj::heap<FirewallController>(deps.config);
}

// config.EthernetController: publishes EthernetSpecs, the settings of drivers that the config has
// for links. While a restarted brain does not know the config, its predecessor's specs stay.
namespace {

class EthernetController final : public Controller {
 public:
  explicit EthernetController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "config.EthernetController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
  }
  kj::Array<kj::StringPtr> outputs() const override { return typeNames<rpc::EthernetSpecSpec>(); }

  kj::Promise<void> reconcile(Store& store) override {
    KJ_IF_MAYBE (machine, config.tryMachine(store)) {
      Outputs<rpc::EthernetSpecSpec> outputs(name());
      for (auto link : machine->getNetwork().getEthernet()) {
        auto spec = outputs.add(link.getName());
        spec.setRings(link.getRings());
        spec.setChannels(link.getChannels());
        spec.setFeatures(link.getFeatures());
        spec.setWakeOnLan(link.getWakeOnLan());
        spec.setSetsWakeOnLan(link.getSetsWakeOnLan());
      }
      outputs.apply(store);
    }
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
};

}  // namespace

kj::Own<Controller> ethernetController(ControllerDependencies& deps) {
  return kj::heap<EthernetController>(deps.config);
}

// config.ProbeController: publishes ProbeSpecs, the hosts that probed asks. While a restarted brain
// does not know the config, its predecessor's specs stay.
namespace {

// Formats milliseconds as durations in resources of Talos: "500ms", "1.5s", "1m0s".
kj::String probeTime(uint64_t ms) {
  constexpr uint64_t kSecond = 1000, kMinute = 60 * kSecond, kHour = 60 * kMinute;
  if (ms < kSecond) return kj::str(ms, "ms");
  kj::String fraction;
  if (ms % kSecond != 0) {
    auto digits = kj::str(kSecond + ms % kSecond);  // with a 1 before the zeros
    size_t size = digits.size();
    while (digits[size - 1] == '0') --size;
    fraction = kj::str(".", digits.slice(1, size));
  }
  return kj::str(ms < kHour ? kj::String() : kj::str(ms / kHour, "h"),
                 ms < kMinute ? kj::String() : kj::str(ms / kMinute % 60, "m"), ms / kSecond % 60,
                 fraction, "s");
}

class ProbeController final : public Controller {
 public:
  explicit ProbeController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "config.ProbeController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
  }
  kj::Array<kj::StringPtr> outputs() const override { return typeNames<rpc::ProbeSpecSpec>(); }

  kj::Promise<void> reconcile(Store& store) override {
    KJ_IF_MAYBE (machine, config.tryMachine(store)) {
      Outputs<rpc::ProbeSpecSpec> outputs(name());
      for (auto probe : machine->getNetwork().getProbes()) {
        auto spec = outputs.add(kj::str(probe.getHttp() ? "http:" : "tcp:", probe.getTarget()));
        spec.setInterval(probeTime(probe.getIntervalMs()));
        spec.setFailureThreshold(probe.getFailures());
        auto timeout = probeTime(probe.getTimeoutMs());
        if (probe.getHttp()) {
          auto http = spec.initHttp();
          http.setUrl(probe.getTarget());
          http.setTimeout(timeout);
        } else {
          auto tcp = spec.initTcp();
          tcp.setEndpoint(probe.getTarget());
          tcp.setTimeout(timeout);
        }
      }
      outputs.apply(store);
    }
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
};

}  // namespace

kj::Own<Controller> probeController(ControllerDependencies& deps) {
  return kj::heap<ProbeController>(deps.config);
}

// runtime.MetricsController: publishes machine.metrics, for apid, as the resource
// MetricsEndpoints/metrics. While the config is not known, and without the key, the resource does
// not exist and apid serves no metrics.
namespace {

class MetricsController final : public Controller {
 public:
  explicit MetricsController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "runtime.MetricsController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
  }
  kj::Array<kj::StringPtr> outputs() const override {
    return typeNames<rpc::MetricsEndpointSpec>();
  }

  kj::Promise<void> reconcile(Store& store) override {
    Outputs<rpc::MetricsEndpointSpec> outputs(name());
    KJ_IF_MAYBE (machine, config.tryMachine(store)) {
      if (machine->hasMetrics()) {
        auto metrics = machine->getMetrics();
        auto spec = outputs.add("metrics");
        spec.setPort(metrics.getPort());
        spec.setPlain(metrics.getPlain());
        spec.setToken(metrics.getToken());
        spec.setPods(metrics.getPods());
      }
    }
    outputs.apply(store);
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
};

}  // namespace

kj::Own<Controller> metricsController(ControllerDependencies& deps) {
  return kj::heap<MetricsController>(deps.config);
}

}  // namespace talos::machined
