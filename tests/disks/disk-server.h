// A server of the disks of virtual machines, on a thread of its own, whose power a test can cut.
// `talosctl cluster create --disk-server` names its socket to QEMU, which asks for each disk by the
// path of its file.
//
// The files <folder>/<machine>.<disk> are the disks of one machine. A run of a machine begins with
// its first connection and ends with its last one; what it has not flushed is lost then, as at a
// power cut. QEMU flushes before it exits in order, and does not when it is killed: so a machine
// that is killed has lost its power.
//
// Every method may be called on any thread, and blocks it. A machine that was started just now is
// waited for; NotFound is thrown for one that is off.
#pragma once

#include <kj/thread.h>

#include <string>

#include "tests/disks/machine-disks.h"

namespace talos::disk {

class DiskServer {
 public:
  // Listens at this path. Throws when it cannot.
  explicit DiskServer(const std::string& socket);
  ~DiskServer() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(DiskServer);

  const std::string& socket() const { return path; }

  // As MachineDisks::cut: afterwards the machine gets no answer from its disks, until it is killed.
  // DeadlineExceeded when the write does not come in time; then the machine goes on.
  Cut cut(const std::string& machine, uint64_t atWrite, uint64_t seed, double withinSeconds);

  // As MachineDisks::record, of the disks that QEMU has opened by now; the recording ends with the
  // run of the machine.
  void record(const std::string& machine, const std::string& log, uint64_t limit);
  // By its file; also when it has ended.
  MachineDisks::Recording recording(const std::string& log);
  void stopRecording(const std::string& log);

  // As FileMedium::failWritesFrom, of all disks of this run.
  void failWritesFrom(const std::string& machine, uint64_t place);

  // Returns when what a machine that was killed loses is lost. Nothing more is written to its files
  // then.
  void waitUntilOff(const std::string& machine);

 private:
  class Service;
  struct Running;

  std::string path;
  kj::Own<Running> running;
};

}  // namespace talos::disk
