// Finds volumes: disks and partitions with file systems on them, by their labels or by a file.
//
// Between two searches nothing is remembered except the devices that do not respond, and nothing
// stays mounted (mount-volume.h). All work on devices runs in a separate thread pool, so that
// hanging devices take no thread from the rest of the brain, nor from each other; a confined
// process parses their bytes (machined/confined/parser-client/foreign-bytes.h). A device that does
// not respond within 10 s, or does not deliver its files within 60 s, is reported. It is tried
// again after a pause, but not while a thread is still busy with it, because each attempt would
// occupy another one: each look until then reports its problem, too, unless another disk has its
// name.
#pragma once

#include <kj/map.h>
#include <kj/refcount.h>
#include <kj/timer.h>

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/disk/devices/block-devices.h"
#include "machined/process1/modprobe/kernel-modules.h"
#include "machined/process1/read-pool.h"

namespace talos::machined {

struct Volume {
  BlockDevice device;
  kj::Maybe<Superblock> content;  // nullptr: nothing known
  // Text after the volume's name that says why its content is unknown: "did not respond within 10
  // s". Empty if the content was read.
  kj::String problem = kj::String();

  // Returns true if it did not respond in time, and may respond later without an event of the
  // kernel.
  bool isSilent() const;
  kj::StringPtr label() const;  // "" without one
  bool contains(FileSystem type) const;
};

// Returns the volume to read: with this label (ignoring case, because FAT has only capitals) and a
// mountable file system. Returns the first of several; `others` gets the skipped ones, except those
// on the same disk (a disc image made for sticks shows twice).
kj::Maybe<const Volume&> chooseVolume(kj::ArrayPtr<const Volume> volumes, kj::StringPtr label,
                                      kj::Vector<kj::String>& others);

struct VolumeFiles {
  kj::String device;                            // "/dev/sr0"
  kj::Array<kj::Maybe<kj::Array<char>>> files;  // as requested; nullptr: missing
};

// Resolves with the files that `read` returns for the first volume with UDF or ISO 9660 that has
// the first of them. `unreadable`: an error of the tried volumes. All parameters must outlive the
// promise.
using ReadVolume = kj::Function<kj::Promise<VolumeFiles>(const Volume& volume)>;
kj::Promise<kj::Maybe<VolumeFiles>> firstDisc(kj::ArrayPtr<const Volume> volumes, ReadVolume& read,
                                              kj::Maybe<kj::Exception>& unreadable);

class Volumes {
 public:
  virtual ~Volumes() noexcept(false) = default;
  // Returns all present volumes, including those that could not be looked at.
  virtual kj::Promise<kj::Vector<Volume>> look() = 0;
  // Returns the encrypted volumes that are open now, with their content.
  virtual kj::Promise<kj::Vector<Volume>> lookIntoOpen() = 0;
  // Returns files of the volume with this label, by their paths from its top folder, each of at
  // most `limit` bytes. Waits at most `timeout` for the volume to appear (drives and discs come
  // late), then for it to be read. Resolves with nullptr if no such volume exists. Throws naming
  // the device and the cause if the volume exists and cannot be read.
  virtual kj::Promise<kj::Maybe<VolumeFiles>> read(kj::StringPtr label, kj::Array<kj::String> names,
                                                   size_t limit, kj::Duration timeout) = 0;
  // The same for the first disc (UDF or ISO 9660, whatever its label and device) with this file.
  // Resolves with nullptr if no disc has it. Throws if none has it and a disc cannot be read: the
  // file may be on that disc.
  virtual kj::Promise<kj::Maybe<VolumeFiles>> readDisc(kj::String name, size_t limit,
                                                       kj::Duration timeout) = 0;
};

// The volumes of this machine.
class RealVolumes final : public Volumes {
 public:
  RealVolumes(kj::UnixEventPort& port, kj::Timer& timer, ForeignBytes& foreign,
              kj::Function<void(kj::StringPtr line)> say, OpenModules modules,
              kj::StringPtr sys = "/sys")
      : port(port),
        timer(timer),
        foreign(foreign),
        say(kj::mv(say)),
        modules(kj::mv(modules)),
        sys(kj::str(sys)) {}

  kj::Promise<kj::Vector<Volume>> look() override;
  kj::Promise<kj::Vector<Volume>> lookIntoOpen() override;
  kj::Promise<kj::Maybe<VolumeFiles>> read(kj::StringPtr label, kj::Array<kj::String> names,
                                           size_t limit, kj::Duration timeout) override;
  kj::Promise<kj::Maybe<VolumeFiles>> readDisc(kj::String name, size_t limit,
                                               kj::Duration timeout) override;

 private:
  // More threads than a machine has hanging devices: a look starts with all devices at once, and
  // each has its time from then on. The pool makes a thread only when a device needs one.
  static constexpr unsigned kThreads = 128;

  // An attempt to read a device: each of its jobs in the pool has a reference.
  using Attempt = kj::Own<const kj::AtomicRefcounted>;
  struct Silence {
    uint64_t sequence;  // of the device
    Attempt attempt;
    kj::TimePoint again;
  };

  // The last list of devices of a kind.
  struct Listing {
    Attempt attempt;
    kj::TimePoint late = kj::origin<kj::TimePoint>();
  };

  kj::UnixEventPort& port;
  kj::Timer& timer;
  ForeignBytes& foreign;
  kj::Function<void(kj::StringPtr line)> say;
  OpenModules modules;
  kj::String sys;  // where sysfs is
  Listing diskList, openList;
  kj::TreeMap<kj::String, Silence> silent;  // devices whose last attempt was too late
  kj::TreeSet<kj::String> reported;         // already reported
  ReadPool pool{timer, {.threads = kThreads, .mostThreads = kThreads}, [](kj::StringPtr) {}};

  // Resolves with nullptr after `timeout`.
  template <typename T>
  kj::Promise<kj::Maybe<T>> answered(const BlockDevice& device, kj::Duration timeout,
                                     Attempt attempt, kj::Promise<T> job);
  using ReadList = kj::Vector<BlockDevice> (*)(kj::StringPtr sys);
  kj::Promise<kj::Vector<BlockDevice>> list(kj::StringPtr doing, Listing& last, ReadList read);
  kj::Maybe<const Silence&> silenceOf(const BlockDevice& device) const;
  bool mayBeTried(const BlockDevice& device) const;
  // Forgets the silent devices of a kind, disks or mapped devices, that are not in `devices`.
  void forgetOthers(kj::ArrayPtr<const BlockDevice> devices, bool disks);
  kj::Promise<Volume> probe(BlockDevice device, bool divided);  // into partitions
  kj::Promise<kj::Vector<Volume>> probeAll(kj::Vector<BlockDevice> devices);
  kj::Promise<void> loadDrivers();
  // Looks until `attempt` returns files; resolves with nullptr after `timeout`.
  using TryVolumes =
      kj::Function<kj::Promise<kj::Maybe<VolumeFiles>>(kj::ArrayPtr<const Volume> volumes)>;
  kj::Promise<kj::Maybe<VolumeFiles>> search(kj::Duration timeout, TryVolumes attempt);
  kj::Promise<VolumeFiles> readVolume(const Volume& volume, kj::ArrayPtr<const kj::String> names,
                                      size_t limit);
  void sayOnce(kj::String line);
};

// Finds out the content of a disk, which may be anything. Rejects with an error that names the
// disk. The references must outlive the promise.
kj::Promise<FoundOnDisk> lookAtDisk(ReadPool& pool, ForeignBytes& foreign, kj::String disk);
// Returns what a disk with this content holds: file systems, then its partitions. Pure.
kj::Vector<kj::String> thingsOn(const FoundOnDisk& found);

}  // namespace talos::machined
