// All disks of one machine, and the switch that cuts their power.
//
// Every change of a disk is counted: writes, trims, zeroes. At a cut every disk loses its unflushed
// writes (volatile-disk.h). Afterwards no request is answered, so the machine can be killed later:
// no action of it after the cut reaches its disks. The write at which the power is cut has arrived
// but is not answered: it is lost, whatever its flags, or reaches the medium as drawn by the seed;
// except a write that is larger than the memory of a disk, which is not lost.
#pragma once

#include <kj/async.h>
#include <kj/vector.h>

#include "tests/disks/disk-log.h"
#include "tests/disks/nbd.h"
#include "tests/disks/volatile-disk.h"

namespace talos::disk {

struct Cut {
  uint64_t atWrite = 0;  // 0: at once
  uint64_t seed = 0;
  uint32_t unflushed = 0;  // writes that could be lost
  uint32_t kept = 0;       // of these, those that reached the medium, torn or whole
  bool torn = false;       // one of these only in part
};

class MachineDisks {
 public:
  explicit MachineDisks(size_t mostRemembered = VolatileDisk::kMostRemembered);
  ~MachineDisks() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(MachineDisks);

  // Adds a disk; the export is valid for as long as this object lives.
  Export& add(kj::Own<Medium> medium);

  // Cuts at the `atWrite`th write from now; 0 is at once. If the promise is dropped before, nothing
  // happens. A seed of 0 loses all unflushed writes; any other seed draws those that reach the
  // medium. Throws kFailedPrecondition if another cut is awaited, has happened, or comes first.
  kj::Promise<Cut> cut(uint64_t atWrite, uint64_t seed);
  bool isOff() const { return off; }  // since a cut

  // Records everything from now on; unflushed writes of before count as flushed in the recording.
  // Blocks for as long as it takes to copy the disks. Throws FailedPrecondition while another
  // recording runs, and the errors of DiskLog; then no file of it remains.
  void record(kj::StringPtr path, uint64_t limit);
  struct Recording {
    kj::String path, problem;
    bool running = false;
    uint64_t events = 0, writes = 0, bytes = 0;
  };
  Recording recording() const;  // the last one
  void stopRecording();         // if there is one

  // Closes all disks; afterwards only recording() and stopRecording() may be called.
  void close();

 private:
  class Disk;
  struct Armed {
    uint64_t atWrite, left, seed;
    kj::Own<kj::PromiseFulfiller<Cut>> fulfiller;
  };
  size_t mostRemembered;
  kj::Vector<kj::Own<Disk>> disks;
  kj::Maybe<Armed> armed;
  kj::Maybe<DiskLog> log;  // of the last recording
  bool recordingNow = false;
  bool off = false;

  // Counts a write; returns true if the power is cut at it.
  bool countsDown();
  Cut cutNow(uint64_t atWrite, uint64_t seed);
  void note(const LogRecord& record, kj::ArrayPtr<const kj::byte> bytes = nullptr);
};

}  // namespace talos::disk
