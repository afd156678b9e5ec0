// block.FilesystemTrimController: tells the disks, at the intervals of the config, which blocks of
// the node's file systems are unused (FITRIM), so that an SSD or a thin disk can use them.
//
// The times of a file system are on a grid from the epoch, with another offset on each node,
// so that the nodes of a cluster do not trim at once. A boot trims nothing by itself: a time that
// passes while the node is down is left out. Keeps no state; a restarted brain waits for the next
// time. A large file system is trimmed in parts, each with the folder open for that part only: a
// shutdown can unmount it between two.
//
// A disk that cannot be told, such as a hard disk or an encrypted one, is no problem: the console
// says so once. What fails is a problem in `status` until it succeeds at a later time.
#pragma once

#include <map>
#include <string>

#include "machined/disk/volumes/disk-controllers.h"

namespace talos::machined {

struct TrimInterval {
  kj::String mountpoint;  // "": all file systems without another one
  uint64_t seconds;       // 0: never
};
kj::Vector<TrimInterval> trimIntervals(config::Machine::Reader machine);
// Returns the seconds between two times at which this file system is trimmed; 0: never.
uint64_t trimIntervalOf(kj::ArrayPtr<const TrimInterval> all, kj::StringPtr mountpoint);
// Returns the number of the last time of the grid that is not after `now`, in seconds since the
// epoch.
uint64_t trimTime(uint64_t now, uint64_t interval, kj::StringPtr node, kj::StringPtr mountpoint);

// The trim of a part of a file system.
struct TrimmedPart {
  uint64_t bytes = 0;     // of which the disk was told
  bool supported = true;  // by the disk and the file system
  bool last = true;
};
constexpr uint64_t kTrimPart = uint64_t{16} << 30;
// Trims the part that begins at this offset, kTrimPart long or up to the end. Blocks.
TrimmedPart trimPart(kj::StringPtr mountpoint, uint64_t offset);

class FilesystemTrimController final : public WokenController {
 public:
  struct Dependencies {
    kj::Timer& timer;
    const kj::Clock& clock;
    kj::String node;                                 // by which the times of nodes differ
    kj::Function<kj::Promise<kj::String>()> mounts;  // the text of mountinfo
    // Returns the mount points of the node's file systems; empty while the machine shuts down.
    kj::Function<kj::Vector<kj::String>()> targets;
    kj::Function<kj::Vector<TrimInterval>(Store& store)> intervals;
    kj::Function<kj::Promise<TrimmedPart>(kj::String mountpoint, uint64_t offset)> trim;
    kj::Function<void(kj::StringPtr line)> say;
    kj::Function<void(kj::Vector<kj::String> problems)> changed;  // gets all problems
  };
  explicit FilesystemTrimController(Dependencies deps);

  kj::StringPtr name() const override { return "block.FilesystemTrimController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  struct Time {
    uint64_t interval, number;
  };
  Dependencies deps;
  std::map<std::string, Time> last;             // by mount point: of the last look
  std::map<std::string, std::string> problems;  // by mount point
  std::map<std::string, bool> unsupported;      // by mount point: it was said
  bool busy = false;
  kj::Promise<void> work = kj::READY_NOW;

  bool isTarget(kj::StringPtr mountpoint);
  kj::Promise<void> trimAll(kj::Vector<kj::String> mountpoints);
  kj::Promise<void> trimOne(kj::StringPtr mountpoint);
  void setProblem(kj::StringPtr mountpoint, kj::Maybe<kj::String> problem);
};

}  // namespace talos::machined
