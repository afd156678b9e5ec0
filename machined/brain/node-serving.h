// Serves the machine's API on machined's socket: for each connection, which is one client of apid,
// one Node for callers with a certificate, one for callers without while the machine waits for a
// config, and the parts that both share. It limits the open calls of one client, and of all
// (client-call-limits.h). Keeps no state: a client of a brain that died connects to the next one.
#pragma once

#include "common/wire/request-trace.h"
#include "machined/api/machine-server.h"
#include "machined/api/node-server.h"
#include "machined/api/sample-history.h"
#include "machined/brain/config-effects.h"
#include "machined/brain/life-assembly.h"
#include "machined/logs/events-and-logs-server.h"
#include "machined/process1/client-call-limits.h"
#include "machined/upgrade/upgrader.h"

namespace talos::machined {

class NodeServing final : public MachineOperations {
 public:
  NodeServing(BrainCore& core, ServicesAssembly& services, DiskAssembly& disks,
              ConfigAssembly& configs, KubernetesAssembly& kubernetes, UpgradeAssembly& upgrades,
              LifeAssembly& life)
      : core(core),
        services(services),
        disks(disks),
        configs(configs),
        kubernetes(kubernetes),
        upgrades(upgrades),
        life(life),
        samples(disks.reads, core.timer,
                {.proc = kj::str("/proc"),
                 .sys = kj::str("/sys"),
                 .cgroups = kj::str("/sys/fs/cgroup"),
                 .memory = kj::str(kMemoryOfContainer)}) {}
  KJ_DISALLOW_COPY_AND_MOVE(NodeServing);

  // Runs until dropped; rejects only if the socket itself fails.
  kj::Promise<void> serve(kj::AutoCloseFd listening);
  // Keeps samples of the last minutes, until dropped.
  kj::Promise<void> takeSamples() { return samples.run(); }
  rpc::Networkd::Client networkd();  // reconnects when the daemon restarts
  // Returns " by admin (10.5.0.1)" for the caller that has just called a method that shuts the
  // machine down; otherwise "".
  kj::String askedBy() const;

 private:
  struct Asked {
    kj::String who;
    kj::Date at;
  };
  BrainCore& core;
  ServicesAssembly& services;
  DiskAssembly& disks;
  ConfigAssembly& configs;
  KubernetesAssembly& kubernetes;
  UpgradeAssembly& upgrades;
  LifeAssembly& life;
  Rules rules{capnp::Schema::from<rpc::Node>()};
  // The log of this name is the brain's own log, not its standard error.
  RequestTrace trace{core.timer, rules, RequestTrace::Keep([this](kj::StringPtr line) {
                       core.logs.append("machined", consoleLine(line, core.clock.now()));
                     })};
  kj::Own<NodeCalls> calls = kj::refcounted<NodeCalls>();
  kj::Maybe<Asked> asked;
  SampleHistory samples;
  ConfigEffects effects{effectsDependencies()};

  // Parts that all clients share, and parts of one client.
  NodeParts sharedParts(ConfigManager::Caller caller);
  NodeParts partsOf(NodeParts& shared, ClientCalls& client);

  rpc::Node::Client maintenance(rpc::Node::Client node);
  rpc::Kubed::Client kubed();
  rpc::LogFeed::Client logFeed();
  void audit(rpc::AuditRecord::Reader record);
  PreviousLog previousLog(kj::Own<ClientCalls> calls);
  PreviousEvents previousEvents(kj::Own<ClientCalls> calls);
  rpc::Configuration::Client configuration(ConfigManager::Caller caller);
  ConfigEffects::Dependencies effectsDependencies();
  kj::String errorInLogOfEtcd();
  kj::Vector<kj::String> volumeProblems();
  kj::Promise<kj::Array<kj::String>> makeVolumes();

  kj::Promise<void> reboot() override { return life.life.acceptReboot(); }
  kj::Promise<void> shutdown() override { return life.life.acceptShutdown(); }
  void fillStatus(rpc::Status::Builder out) override;
  kj::Vector<ServiceCgroup> runningServices() override;
  kj::Promise<TimeAnswer> queryTime(kj::String server) override;
  kj::Maybe<pki::CertificateAndKey> authority() override;
  kj::Promise<ResetFacts> previewReset(kj::Vector<kj::String> labels, bool graceful) override;
  kj::Promise<void> reset(kj::Vector<kj::String> labels, bool graceful, bool reboot) override;
  kj::Promise<pki::Pem> kubeconfig() override;
  kj::Vector<ControllerLinks> dependencies() override;
  void fillSamples(uint64_t lastMs, rpc::Machine::SamplesResults::Builder out) override {
    samples.fill(lastMs, out);
  }
};

}  // namespace talos::machined
