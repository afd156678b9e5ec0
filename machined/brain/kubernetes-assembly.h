// Assembly of Kubernetes on this node: etcd, the kubelet, the files of the control plane, and
// draining.
#pragma once

#include "machined/brain/config-assembly.h"
#include "machined/kubernetes/etcd/etcd-departure.h"
#include "machined/kubernetes/etcd/etcd-run.h"
#include "machined/kubernetes/kept-versions.h"
#include "machined/kubernetes/kubelet/kubelet-run.h"
#include "machined/kubernetes/kubelet/node-drain.h"

namespace talos::machined {

class KubernetesAssembly {
 public:
  // `drainChanged`: shows the progress of a drain that an upgrade waits for.
  KubernetesAssembly(BrainCore& core, ServicesAssembly& services, DiskAssembly& disks,
                     ConfigAssembly& configs, kj::Function<void(kj::StringPtr)> drainChanged)
      : core(core),
        services(services),
        disks(disks),
        configs(configs),
        drainChanged(kj::mv(drainChanged)) {}
  KJ_DISALLOW_COPY_AND_MOVE(KubernetesAssembly);

  void addControllers();
  void follow();  // what the store says of etcd and the kubelet

 private:
  BrainCore& core;
  ServicesAssembly& services;
  DiskAssembly& disks;
  ConfigAssembly& configs;
  kj::Function<void(kj::StringPtr)> drainChanged;
  KeptVersions keptVersions{
      {.blocking = core.blocking(), .isMounted = [this]() { return disks.state.isMounted(); }}};

 public:
  EtcdRun etcd{etcdDependencies()};
  KubeletRun kubelet{kubeletDependencies()};
  NodeDrain nodeDrain{drainDependencies()};
  EtcdDeparture departure{departureDependencies()};

  rpc::EtcdSupervisor::Client etcdSupervisor();  // reconnects when the daemon restarts

 private:
  EtcdRun::Dependencies etcdDependencies();
  KubeletRun::Dependencies kubeletDependencies();
  NodeDrain::Dependencies drainDependencies();
  EtcdDeparture::Dependencies departureDependencies();
};

}  // namespace talos::machined
