// The answers of a node in the test's own process: its state, which tests change.
#pragma once

#include "common/tls/pki.h"
#include "rpc/node.capnp.h"
#include "talosctl/commands/test-node-config.h"
#include "talosctl/commands/test-node-containers.h"
#include "talosctl/commands/test-node-kubernetes.h"
#include "talosctl/commands/test-node-looks.h"
#include "talosctl/commands/test-node-upgrades.h"

namespace talos::talosctl {

// The answers of a node; a test changes the answers that it needs.
struct FakeNode {
  kj::String bootId = kj::str("boot-1");
  rpc::Status::Stage stage = rpc::Status::Stage::RUNNING;
  int lastSignal = 0;
  kj::String lastLevel;  // service and number of the level
  kj::String lastCores;  // "apid on"
  kj::String removedCrash;
  kj::String buildId = kj::str("0a16");  // build id of its programs
  kj::Vector<kj::String> serviceIds;
  kj::Array<kj::byte> archive;                             // answer of copy()
  kj::Maybe<kj::StringPtr> unreadable = "/etc/shadow"_kj;  // path that copy() leaves out
  kj::Vector<kj::String> logLines;
  kj::Vector<kj::String> kernelLines;  // lines with their line ends
  struct Issued {
    kj::StringPtr caller, notAfter;
  };
  kj::Vector<Issued> issued;           // certificates issued by its trustd
  kj::Vector<kj::String> eventsAsked;  // arguments of the calls for events
  bool resourcesRefused = false;       // refuses resources, as for os:reader
  bool hangs = false;                  // never answers a call
  bool memoryHangs = false;            // never answers memory()
  bool off = false;                    // the endpoint cannot reach it
  bool pullsHang = false;              // pulls of images never end
  unsigned answersUntilReboot = 0;     // answers of version() between reboot() and the reboot
  bool rebooting = false, shuttingDown = false, notInstalled = false;
  kj::Vector<kj::String> resets;  // the requests
  bool endlessFiles = false;      // its lists of files never end
  unsigned etcdVoters = 0;
  unsigned calls = 0;
  bool logsFail = false;
  kj::Vector<rpc::LogSink::Client> keptSinks;  // sinks of failed log calls
  kj::Vector<kj::Own<kj::PromiseFulfiller<void>>> follows;
  kj::Vector<uint64_t> logFrom;       // `from` of each read()
  kj::Vector<kj::String> linesAsked;  // "age 300000 with a text", "time 1", "always"
  FakeConfig config;
  FakeMeta meta;
  FakeUpgrades upgrades;
  FakeKubernetes kubernetes;
  ModelPods pods;
  uint64_t processMemory = 0, processCpuMs = 0;
  int process = -1;     // process whose sockets were requested
  kj::String captured;  // link, snap length, duration and instructions of the filter
  kj::String kubeconfig = kj::str(kKubeconfig);
  // Port that the node reports; nullptr: the node has no control plane.
  kj::Maybe<uint16_t> apiServerPort;
  kj::String timeServer;  // requested time server
  bool timeless = false;  // no time server answers the node
  int64_t clock = 1'615'000'000'000'000'001;
  uint64_t serviceEvent = 0;  // time of a service event, 1 s before the request; 0: no event
  const pki::CertificateAndKey* authority = nullptr;  // CA whose key the node has
  kj::String certificateAsked;                        // "os:reader for 3600 s"
};

}  // namespace talos::talosctl
