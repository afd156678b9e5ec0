// For tests: the answers of a model node to commands that inspect it.
#pragma once

#include "common/base/error.h"
#include "common/base/resource.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/machine.capnp.h"
#include "rpc/network.capnp.h"
#include "rpc/stream.capnp.h"

namespace talos::talosctl {

constexpr kj::StringPtr kKubeconfig =
    "apiVersion: v1\nkind: Config\ncurrent-context: admin@c1\n"
    "clusters: [{name: c1, cluster: {server: 'https://10.0.0.2:6443'}}]\n"
    "contexts: [{name: admin@c1, context: {cluster: c1, user: admin@c1}}]\n"
    "users: [{name: admin@c1, user: {}}]\n"_kj;

inline void fillSockets(rpc::Machine::NetstatResults::Builder out) {
  auto sockets = out.initSockets(3);
  auto fill = [](auto s, auto protocol, auto local, auto port, auto remote, auto state) {
    s.setProtocol(protocol), s.setLocalAddress(local), s.setLocalPort(port);
    s.setRemoteAddress(remote), s.setState(state);
  };
  fill(sockets[0], "tcp", "0.0.0.0", 50000, "0.0.0.0", "LISTEN");
  fill(sockets[1], "tcp", "10.0.0.2", 50000, "10.0.0.9", "ESTABLISHED");
  fill(sockets[2], "udp6", "::", 68, "::", "");
  sockets[1].setRemotePort(4711), sockets[1].setSendQueue(12);
  sockets[1].setPid(7), sockets[1].setProgram("apid");
  sockets[1].setUid(50), sockets[1].setInode(99);
}

inline void fillCgroups(rpc::Machine::CgroupsResults::Builder out) {
  auto groups = out.initGroups(3);
  groups[1].setPath("system");
  groups[2].setPath("system/apid");
  groups[2].setProcesses(2);
  auto memory = groups[2].initMemory();
  memory.setCurrent(12'000'000), memory.setMax(-1), memory.setPeak(13'000'000);
  memory.setSwapCurrent(rpc::Cgroup::UNCOUNTED);
  auto cpu = groups[2].initCpu();
  cpu.setUsageUs(1'500'000), cpu.setQuotaUs(150'000), cpu.setPeriodUs(100'000);
  cpu.setWeight(rpc::Cgroup::UNCOUNTED), cpu.setThrottledUs(rpc::Cgroup::UNCOUNTED);
  auto cpuset = groups[2].initCpuset();
  cpuset.setCpus("0-1,3"), cpuset.setEffectiveCpus("0-1");
  cpuset.setEffectiveMemoryNodes("0");
  auto pressure = groups[2].initPressure(1)[0];
  pressure.setResource("memory"), pressure.setSomeAvg60(1.25);
}

inline void fillDependencies(rpc::Machine::DependenciesResults::Builder out) {
  auto all = out.initControllers(2);
  all[0].setName("config.MachineTypeController");
  auto read = all[0].initReads(1)[0];
  read.setNamespace("config"), read.setType(typeName<rpc::MachineConfigSpec>());
  read.setId("v1alpha1");
  all[0].initWrites(1).set(0, typeName<rpc::MachineTypeSpec>());
  all[1].setName("vipd");
  all[1].setDaemon(true);
  auto type = all[1].initReads(1)[0];
  type.setNamespace("config"), type.setType(typeName<rpc::MachineTypeSpec>());
}

class FakeNetwork final : public rpc::Network::Server {
 public:
  explicit FakeNetwork(kj::String& captured) : captured(captured) {}

  kj::Promise<void> interfaces(InterfacesContext context) override {
    context.getResults().initInterfaces(0);
    return kj::READY_NOW;
  }
  kj::Promise<void> routes(RoutesContext context) override {
    auto route = context.getResults().initRoutes(1)[0];
    route.setInterface("eth0"), route.setDestination("0.0.0.0/0"), route.setGateway("10.5.0.1/32");
    return kj::READY_NOW;
  }
  kj::Promise<void> capture(CaptureContext context) override {
    auto params = context.getParams();
    captured = kj::str(params.getLink(), " ", params.getSnapLength(), " ", params.getDurationMs(),
                       " ", params.getFilter().size());
    if (params.getLink() == "nowhere") fail(ErrorKind::kNotFound, "there is no link \"nowhere\"");
    auto write = params.getSink().writeRequest();
    write.setBytes("pcap"_kj.asBytes());
    co_await write.send();
    context.getResults().setPackets(3);
    if (params.getLink() == "busy") context.getResults().setDropped(1);
  }

 private:
  kj::String& captured;
};

}  // namespace talos::talosctl
