// The disks of a recording (tests/disks/disk-log.h) as a power cut at any of its events leaves
// them.
//
// All flushed writes are on the images, and of the others a part that the seed chooses, by the code
// that cuts the power of virtual machines (tests/disks/machine-disks.h). The images are sparse
// files that are kept rolled forward to the last flush of each disk; the effect of a cut is undone
// after `look`.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/vector.h>

#include <string>

#include "tests/disks/disk-log.h"
#include "tests/disks/file-medium.h"
#include "tests/disks/machine-disks.h"

namespace talos::cuts {

class Replay {
 public:
  // Makes the images in `folder`. Throws if the log is invalid.
  Replay(kj::WaitScope& scope, const std::string& log, const std::string& folder);
  ~Replay() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Replay);

  size_t events() const { return all.size(); }
  bool changes(size_t event) const { return all[event].record.kind != disk::LogKind::kFlush; }
  size_t writes() const;
  const disk::LogRecord& record(size_t event) const { return all[event].record; }
  // Returns the paths of the images, in the order of the machine's disks.
  const std::vector<std::string>& images() const { return paths; }

  // Cuts at this event, which has arrived and is not answered; or before it, at once. Events must
  // not go backwards. `look` sees the images, and must not change them. The seed is that of
  // MachineDisks::cut.
  enum class When { kAt, kBefore };
  disk::Cut cut(size_t event, When when, uint64_t seed, kj::FunctionParam<void()> look);

 private:
  struct Event {
    disk::LogRecord record;
    kj::ArrayPtr<const kj::byte> bytes;
  };
  struct Disk {
    kj::Own<disk::FileMedium> medium;
    kj::Vector<size_t> unflushed;  // events
  };
  kj::WaitScope& scope;
  kj::ArrayPtr<const kj::byte> log;  // mapped
  kj::Vector<Event> all;
  kj::Vector<Disk> disks;
  std::vector<std::string> paths;
  size_t rolled = 0;  // events before this one are on the images, or unflushed

  void read(const std::string& folder);
  void rollTo(size_t event);
  void perform(disk::Medium& medium, const Event& event);
};

// A folder in memory that is removed with the object.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  const std::string& path() const { return folder; }

 private:
  std::string folder;
};

}  // namespace talos::cuts
