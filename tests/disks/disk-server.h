// A server of the disks of virtual machines, on a separate thread, whose power a test can cut.
// `talosctl cluster create --disk-server` names its socket to QEMU, which requests each disk by the
// path of its file.
//
// The files <folder>/<machine>.<disk> are the disks of one machine. A run of a machine begins with
// its first connection and ends with its last; then its unflushed writes are lost, as at a power
// cut. QEMU flushes before it exits in order, and does not when it is killed: so a machine that is
// killed has lost its power. The server has no file of a machine open after the end of its run.
//
// Every method may be called on any thread, and blocks it. It waits for a machine that has just
// been started, and throws NotFound for a machine that is off.
#pragma once

#include <kj/thread.h>

#include <string>

#include "tests/disks/machine-disks.h"

namespace talos::disk {

class DiskServer {
 public:
  // Listens at this path. Throws if it cannot.
  explicit DiskServer(const std::string& socket);
  ~DiskServer() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(DiskServer);

  const std::string& socket() const { return path; }

  // Cuts the power like MachineDisks::cut: afterwards the machine gets no answer from its disks,
  // until it is killed. Throws DeadlineExceeded if the write does not come in time; then the
  // machine continues.
  Cut cut(const std::string& machine, uint64_t atWrite, uint64_t seed, double withinSeconds);

  // Records like MachineDisks::record, all disks that QEMU has opened by now; the recording ends
  // with the run of the machine.
  void record(const std::string& machine, const std::string& log, uint64_t limit);
  // Returns the recording with this file, even after its end.
  MachineDisks::Recording recording(const std::string& log);
  void stopRecording(const std::string& log);

  // Makes writes fail like FileMedium::failWritesFrom, on all disks of this run.
  void failWritesFrom(const std::string& machine, uint64_t place);

  // Waits until the unflushed writes of a killed machine are lost. After that, its files are not
  // written any more.
  void waitUntilOff(const std::string& machine);

 private:
  class Service;
  struct Running;

  std::string path;
  kj::Own<Running> running;
};

}  // namespace talos::disk
