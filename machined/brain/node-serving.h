// The machine's API on machined's socket: for each connection, which is one client of apid, one
// Node for callers with a certificate, one for those without while the machine waits for a config,
// and the parts that both are made of. What one client may have open at once, and all of them, is
// counted here (client-calls.h). Nothing is kept: a client of a brain that died dials the next one.
#pragma once

#include <kj/async-io.h>

#include "common/base/kernel-arguments.h"
#include "machined/api/machine-server.h"
#include "machined/api/node-server.h"
#include "machined/boot/machine-life.h"
#include "machined/boot/machine-stage.h"
#include "machined/config/config-manager.h"
#include "machined/disk/devices/storage-server.h"
#include "machined/disk/volumes/node-reset.h"
#include "machined/kubernetes/etcd/etcd-departure.h"
#include "machined/kubernetes/kubelet/node-drain.h"
#include "machined/logs/event-ring.h"
#include "machined/logs/events-and-logs-server.h"
#include "machined/logs/history/boot-log-recorder.h"
#include "machined/process1/client-call-limits.h"
#include "machined/process1/read-pool.h"
#include "machined/services/supervisor.h"
#include "machined/system/time/time-service.h"
#include "machined/upgrade/upgrade-server.h"

namespace talos::machined {

class NodeServing final : public MachineOperations {
 public:
  struct Dependencies {
    kj::AsyncIoContext& io;
    UvLoop& uv;
    const kj::Clock& clock;
    const KernelArguments& arguments;
    kj::StringPtr platform;
    Mode mode;
    Process1& process1;
    Events& events;
    Logs& logs;
    Store& store;
    ControllerRuntime& controllers;
    MachineConfigReader& reader;
    ForeignBytes& foreign;
    MachineStatus& status;
    Sequencer& sequencer;
    Supervisor& supervisor;
    TimeService& time;
    ConfigKeeper& config;
    MachineLife& life;
    BootRecorder& recorder;
    Containerd& containerd;
    Upgrader& upgrader;
    ReadPool& pool;  // of what clients read
    MetaPartition& meta;
    Reset& reset;
    EtcdDeparture& departure;
    NodeDrain& drain;
    NewRecoveryKey newRecoveryKey;
  };
  explicit NodeServing(Dependencies deps);
  KJ_DISALLOW_COPY_AND_MOVE(NodeServing);

  // Until dropped; rejects only if the socket itself fails.
  kj::Promise<void> serve(kj::AutoCloseFd listening);
  // Dial again when the daemon was restarted.
  rpc::Networkd::Client networkd();
  rpc::EtcdSupervisor::Client etcdSupervisor();
  rpc::Kubernetes::Client kubernetes();
  // " by admin (10.5.0.1)": who has just called what takes the machine down; empty if nobody has.
  kj::String askedBy() const;

 private:
  struct Asked {
    kj::String who;
    kj::Date at;
  };
  Dependencies deps;
  kj::Timer& timer;
  Rules rules{capnp::Schema::from<rpc::Node>()};
  ReadPool& pool;
  kj::Own<NodeCalls> calls = kj::refcounted<NodeCalls>();

  // What all clients share, and one client's own.
  NodeParts sharedParts(ConfigKeeper::Caller caller);
  rpc::Node::Client nodeOf(NodeParts& shared, ClientCalls& client);

  kj::Maybe<Asked> asked;

  bool inContainer() const { return deps.mode == Mode::kContainer; }

  void audit(rpc::AuditRecord::Reader record);
  PreviousLog previousLog(kj::Own<ClientCalls> calls);
  PreviousEvents previousEvents(kj::Own<ClientCalls> calls);
  rpc::Configuration::Client configuration(ConfigKeeper::Caller caller);

  kj::Promise<void> reboot() override { return deps.life.acceptReboot(); }
  kj::Promise<void> shutdown() override { return deps.life.acceptShutdown(); }
  void fillStatus(rpc::Status::Builder out) override;
  kj::Vector<ServiceCgroup> runningServices() override;
  kj::Promise<TimeAnswer> askTime(kj::String server) override;
  kj::Maybe<pki::CertificateAndKey> authority() override;
  kj::Promise<ResetFacts> previewReset(kj::Vector<kj::String> labels, bool graceful) override;
  kj::Promise<void> reset(kj::Vector<kj::String> labels, bool graceful, bool reboot) override;
  kj::Promise<pki::Pem> kubeconfig() override;
  kj::Vector<ControllerLinks> dependencies() override;
};

}  // namespace talos::machined
