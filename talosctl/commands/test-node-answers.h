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

// The answers of a node; a test changes those that it needs.
struct FakeNode {
  kj::String bootId = kj::str("boot-1");
  rpc::Status::Stage stage = rpc::Status::Stage::RUNNING;
  int lastSignal = 0;
  kj::String lastLevel;  // service and number of the level
  kj::String lastCores;  // "apid on"
  kj::String removedCrash;
  kj::String buildId = kj::str("0a16");  // of its programs
  kj::Vector<kj::String> serviceIds;
  kj::Array<kj::byte> archive;                             // of copy()
  kj::Maybe<kj::StringPtr> unreadable = "/etc/shadow"_kj;  // what copy() leaves out
  kj::Vector<kj::String> logLines;
  kj::Vector<kj::String> kernelLines;  // with their ends
  struct Issued {
    kj::StringPtr caller, notAfter;
  };
  kj::Vector<Issued> issued;           // certificates of its trustd
  kj::Vector<kj::String> eventsAsked;  // which ones
  bool resourcesRefused = false;       // as for os:reader
  bool hangs = false;                  // never answers a call
  bool memoryHangs = false;            // the same of memory() alone
  bool off = false;                    // the endpoint cannot reach it
  bool pullsHang = false;              // of images
  unsigned answersUntilReboot = 0;     // of version(), after reboot()
  bool rebooting = false, shuttingDown = false, notInstalled = false;
  kj::Vector<kj::String> resets;  // as they were asked for
  bool endlessFiles = false;      // its lists of files go on, and do not end
  unsigned etcdVoters = 0;
  unsigned calls = 0;
  bool logsFail = false;
  kj::Vector<rpc::LogSink::Client> keptSinks;  // of logs that have failed
  kj::Vector<kj::Own<kj::PromiseFulfiller<void>>> follows;
  kj::Vector<uint64_t> logFrom;       // `from` of each read()
  kj::Vector<kj::String> linesAsked;  // "age 300000 with a text", "time 1", "always"
  FakeConfig config;
  FakeMeta meta;
  FakeUpgrades upgrades;
  FakeKubernetes kubernetes;
  ModelPods pods;
  uint64_t processMemory = 0, processCpuMs = 0;
  int process = -1;     // whose sockets were asked for
  kj::String captured;  // link, snap length, duration and instructions of the filter
  kj::String kubeconfig = kj::str(kKubeconfig);
  kj::Maybe<uint16_t> apiServerPort;  // as the node has it; none: it has no control plane
  kj::String timeServer;              // that was asked for
  bool timeless = false;              // no time server answers it
  int64_t clock = 1'615'000'000'000'000'001;
  uint64_t serviceEvent = 0;  // the time of one, 1 s before the node is asked; 0: there was none
  const pki::CertificateAndKey* authority = nullptr;  // of which it has the key
  kj::String certificateAsked;                        // "os:reader for 3600 s"
};

}  // namespace talos::talosctl
