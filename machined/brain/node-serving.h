// The machine's API on machined's socket: one Node for callers with a certificate, one for those
// without while the machine waits for a config, and the parts that both are made of. Nothing is kept
// here: a client of a brain that died dials the next one.
#pragma once

#include <kj/async-io.h>

#include "common/base/kernel-arguments.h"
#include "machined/api/machine-server.h"
#include "machined/api/node-server.h"
#include "machined/boot/machine-stage.h"
#include "machined/brain/machine-life.h"
#include "machined/config/config-keeper.h"
#include "machined/services/supervisor.h"
#include "machined/telemetry/event-ring.h"
#include "machined/time/time-service.h"

namespace talos::machined {

class NodeServing {
 public:
  struct World {
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
    MachineConfigReader& reader;
    ForeignBytes& foreign;
    MachineStatus& status;
    Sequencer& sequencer;
    Supervisor& supervisor;
    TimeService& time;
    ConfigKeeper& config;
    MachineLife& life;
  };
  explicit NodeServing(World world);
  KJ_DISALLOW_COPY_AND_MOVE(NodeServing);

  // Until dropped; rejects only if the socket itself fails.
  kj::Promise<void> serve(kj::AutoCloseFd listening);
  // Dials again when networkd was restarted.
  rpc::Networkd::Client networkd();

 private:
  World world;
  kj::Timer& timer;
  Rules rules{capnp::Schema::from<rpc::Node>()};

  NodeParts parts(ConfigKeeper::Caller caller);
  MachineHooks hooks();
  rpc::Configuration::Client configuration(ConfigKeeper::Caller caller);
  void fillStatus(rpc::Status::Builder out);
  kj::Vector<ServiceCgroup> cgroups();
  kj::Promise<TimeAnswer> askTime(kj::String server);
  kj::Maybe<pki::CertificateAndKey> authority();
};

}  // namespace talos::machined
