// Volumes: disks and partitions with the file systems on them, found by their labels, or by a file.
//
// Between two searches nothing is remembered except the devices that do not respond, and nothing
// stays mounted (mount-volume.h). All work on devices is in a thread pool of its own, so that those
// that hang take no thread from the rest of the brain, nor from each other; what they say is read
// by a confined process (machined/confined/parser-client/foreign-bytes.h). A device that does not
// respond within 10 s, or does not give its files within 60 s, is reported and not tried again from
// then on, since each attempt would keep a thread: it has a problem at each later look, too, until
// it is gone, or another disk has its name.
#pragma once

#include <kj/map.h>
#include <kj/timer.h>

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/disk/devices/block-devices.h"
#include "machined/process1/modprobe/kernel-modules.h"
#include "machined/process1/read-pool.h"

namespace talos::machined {

struct Volume {
  BlockDevice device;
  kj::Maybe<Superblock> content;  // none: nothing that we know
  // Why what is on it is not known, to follow its name: "did not respond within 10 s". Empty when
  // it was looked at.
  kj::String problem = kj::String();

  kj::StringPtr label() const;  // "" without one
  bool holds(FileSystem type) const;
};

// The one to read: with this label (capitals do not count: FAT has nothing else) and a file system
// that can be mounted. Of several the first; `others` gets what had to be passed over, without what
// is on the same disk (a disc image made for sticks shows twice).
kj::Maybe<const Volume&> chooseVolume(kj::ArrayPtr<const Volume> volumes, kj::StringPtr label,
                                      kj::Vector<kj::String>& others);

struct VolumeFiles {
  kj::String device;                            // "/dev/sr0"
  kj::Array<kj::Maybe<kj::Array<char>>> files;  // as they were asked for; none: not there
};

// The files that `read` gives of the first volume with UDF or ISO 9660 that has the first of them.
// `unreadable`: an error of those that were tried. All have to outlive the promise.
using ReadVolume = kj::Function<kj::Promise<VolumeFiles>(const Volume& volume)>;
kj::Promise<kj::Maybe<VolumeFiles>> firstDisc(kj::ArrayPtr<const Volume> volumes, ReadVolume& read,
                                              kj::Maybe<kj::Exception>& unreadable);

class Volumes {
 public:
  virtual ~Volumes() noexcept(false) = default;
  // Everything that is there now, also what could not be looked at.
  virtual kj::Promise<kj::Vector<Volume>> look() = 0;
  // The encrypted volumes that are open now, and what is in them.
  virtual kj::Promise<kj::Vector<Volume>> lookIntoOpen() = 0;
  // Files of the volume with this label, by their paths from its top folder, each of at most
  // `limit` bytes; waits for it to appear for at most `timeout` (drives and discs come late), then
  // for it to be read. None: no such volume. Throws naming the device and the cause when it is
  // there and cannot be read.
  virtual kj::Promise<kj::Maybe<VolumeFiles>> read(kj::StringPtr label, kj::Array<kj::String> names,
                                                   size_t limit, kj::Duration timeout) = 0;
  // The same of the first disc (UDF or ISO 9660, whatever its label and device) with this file.
  // None: no disc has it. Throws when none has it and one cannot be read: it may be there.
  virtual kj::Promise<kj::Maybe<VolumeFiles>> readDisc(kj::String name, size_t limit,
                                                       kj::Duration timeout) = 0;
};

// Those of this machine.
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
  // More threads than a machine has devices that hang: a look begins with all at once, and each has
  // its time from then on. A thread is made when there is none for a device.
  static constexpr unsigned kThreads = 128;

  kj::UnixEventPort& port;
  kj::Timer& timer;
  ForeignBytes& foreign;
  kj::Function<void(kj::StringPtr line)> say;
  OpenModules modules;
  kj::String sys;                            // where sysfs is
  kj::TreeMap<kj::String, uint64_t> silent;  // devices that did not answer, with their sequence
  kj::TreeSet<kj::String> reported;          // said once
  ReadPool pool{port, timer, {.threads = kThreads, .mostThreads = kThreads}, [](kj::StringPtr) {}};

  // None when it takes too long.
  template <typename T>
  kj::Promise<kj::Maybe<T>> answered(const BlockDevice& device, kj::Duration timeout,
                                     kj::Promise<T> job);
  bool isSilent(const BlockDevice& device) const;
  // Of those of a kind, disks or mapped devices, these are there.
  void forgetOthers(kj::ArrayPtr<const BlockDevice> devices, bool disks);
  kj::Promise<Volume> probe(BlockDevice device, bool divided);  // into partitions
  kj::Promise<kj::Vector<Volume>> probeAll(kj::Vector<BlockDevice> devices);
  kj::Promise<void> loadDrivers();
  // Looks until `attempt` gives files, or `timeout` is over: then none.
  using Attempt =
      kj::Function<kj::Promise<kj::Maybe<VolumeFiles>>(kj::ArrayPtr<const Volume> volumes)>;
  kj::Promise<kj::Maybe<VolumeFiles>> search(kj::Duration timeout, Attempt attempt);
  kj::Promise<VolumeFiles> readVolume(const Volume& volume, kj::ArrayPtr<const kj::String> names,
                                      size_t limit);
  void sayOnce(kj::String line);
};

// Finds out what is on a disk, which may be anything. Rejects with an error that names the disk.
// The references outlive the promise.
kj::Promise<FoundOnDisk> lookAtDisk(ReadPool& pool, ForeignBytes& foreign, kj::String disk);

}  // namespace talos::machined
