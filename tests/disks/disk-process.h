// The process that the disks of one virtual machine are in, `talosctl cluster-disks` (hidden
// command), and the supervisor's side of it.
//
// It is a process of its own so that one machine's disks, when they are slow, hang or crash, are no
// other machine's and not the supervisor's. It dies with the supervisor (PR_SET_PDEATHSIG) and may
// be killed at any time: what it has answered is in the disks' files. QEMU has one end of a socket
// pair for each disk: there is no path, and no second client.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/vector.h>

#include "rpc/cluster.capnp.h"
#include "talosctl/cluster/processes/child-process.h"
#include "tests/disks/machine-disks.h"

namespace talos::disk {

struct RecordRequest {
  kj::String file;  // absolute; to begin
  uint64_t limit = 0;
  bool stop = false;
};

class DiskProcess {
 public:
  // Starts it with these files, opened for reading and writing. `machine` is for those who look at
  // the list of processes. Throws when it cannot be started.
  static kj::Own<DiskProcess> launch(kj::UnixEventPort& port, kj::LowLevelAsyncIoProvider& lowLevel,
                                     kj::StringPtr machine,
                                     kj::ArrayPtr<const kj::AutoCloseFd> files);
  // Kills it.
  virtual ~DiskProcess() noexcept(false) = default;

  // QEMU's ends, in the order of the files, until they are taken.
  virtual kj::Vector<kj::AutoCloseFd> takeClients() = 0;
  // As MachineDisks. They fail when the process ends.
  virtual kj::Promise<Cut> cut(uint64_t atWrite, uint64_t seed) = 0;
  virtual kj::Promise<Cut> onCut() = 0;
  virtual kj::Promise<MachineDisks::Recording> record(RecordRequest wish) = 0;
  virtual kj::Promise<cluster::Exit> onExit() = 0;  // once
};

void toWire(const Cut& cut, rpc::PowerCut::Builder out);
void toWire(const MachineDisks::Recording& recording, rpc::DiskRecording::Builder out);
RecordRequest fromWire(rpc::RecordRequest::Reader in);

// The process itself: <machine> <control> (<file> <client>)..., descriptors by their numbers.
// Returns when nobody holds the other end of `control`.
int runDisks(kj::ArrayPtr<const kj::StringPtr> words);

}  // namespace talos::disk
