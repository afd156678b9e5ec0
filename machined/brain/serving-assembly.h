// Assembly of the sockets: the machine's own API, and the daemons with their listening sockets.
#pragma once

#include "machined/brain/daemon-loader.h"
#include "machined/brain/held-sockets.h"
#include "machined/brain/node-serving.h"
#include "machined/config/network/network-cmdline.h"
#include "machined/services/host-window.h"

namespace talos::machined {

class ServingAssembly {
 public:
  ServingAssembly(BrainCore& core, ServicesAssembly& services, DiskAssembly& disks,
                  ConfigAssembly& configs, KubernetesAssembly& kubernetes,
                  UpgradeAssembly& upgrades, LifeAssembly& life)
      : core(core),
        window(core.container ? nullptr : HostWindow::find()),
        node(core, services, disks, configs, kubernetes, upgrades, life),
        daemons(
            machined::daemons(),
            {.supervisor = services.supervisor,
             .daemon = {.lowLevel = *core.io.lowLevelProvider,
                        .store = core.store,
                        .networkd = node.networkd(),
                        .etcdSupervisor = kubernetes.etcdSupervisor(),
                        .containerd = services.containerd,
                        .etcd = kubernetes.etcd,
                        .kubelet = kubernetes.kubelet,
                        .platform = core.platform,
                        .predictableNames = !core.container && predictableNames(core.arguments),
                        .replaceable = core.container,
                        .window = window,
                        .timeLimit = KJ_BIND_METHOD(services.time, awaitedAtMost)},
             .open =
                 [this](const Daemon& daemon) {
                   return openDaemonSocket(this->core.process1, daemon);
                 },
             .openPair =
                 [this](const Daemon& daemon) { return keptPair(this->core.process1, daemon.id); },
             .openPage = KJ_BIND_METHOD(core.pages, open),
             .chosen = core.container
                           ? chosenDaemons(core.arguments, machined::daemons(), core.printAlarms())
                           : kj::Maybe<std::set<kj::StringPtr>>()}) {}
  KJ_DISALLOW_COPY_AND_MOVE(ServingAssembly);

 private:
  BrainCore& core;
  kj::Maybe<HostWindow> window;

 public:
  NodeServing node;
  DaemonLoader daemons;
};

}  // namespace talos::machined
