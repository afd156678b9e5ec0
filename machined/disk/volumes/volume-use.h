// The use of volumes of documents: grows, mounts and releases those that exist, and takes swap into
// use. Part of DataVolumes (data-volumes.h), which makes them.
//
// VolumeStatuses has the device and the mount point of each volume in use, which its release needs:
// no report drops them as long as it is in use. A file system that is mounted at the place of a
// volume and is not the volume's own is left alone.
#pragma once

#include "machined/disk/volumes/data-volumes-parts.h"

namespace talos::machined {

AttachVolume attachVolumes(UvLoop& uv, kj::Timer& timer, SayLine say);

class VolumeUse final : private kj::TaskSet::ErrorHandler {
 public:
  using ConfigVolume = config::StorageVolume::Reader;
  explicit VolumeUse(DataVolumes::Dependencies& deps) : deps(deps), tasks(*this) {}
  KJ_DISALLOW_COPY_AND_MOVE(VolumeUse);

  // Each rejects if the volume cannot be used.
  kj::Promise<void> use(const Placement& placement, const FoundVolumes& found);
  kj::Promise<void> bindDirectory(ConfigVolume volume);
  kj::Promise<void> mountExisting(ConfigVolume volume, const WantedVolumes& wanted,
                                  const FoundVolumes& found);

  // Ends the use of a volume. Resolves with the reason if it is still in use.
  kj::Promise<kj::Maybe<kj::String>> release(kj::StringPtr id);

  void report(ConfigVolume volume, VolumePhase phase, kj::String reason);
  // Returns true if a pass has mounted it, or taken it into use as swap.
  bool isInUse(ConfigVolume volume);
  // Returns true if the volume, on this device, needs no other step to be used.
  bool isUsedNow(ConfigVolume volume, kj::StringPtr node);

  // The differences between volumes in use and their documents, since a pass has emptied the list.
  kj::Vector<kj::String> differences;

 private:
  DataVolumes::Dependencies& deps;
  kj::TreeSet<kj::String> starting;  // swap that the kernel is taking into use
  kj::TaskSet tasks;

  void taskFailed(kj::Exception&& e) override;
  void noteDifferences(const Placement& placement, const FoundVolumes& found);
  kj::Promise<void> grow(const Placement& placement);
  kj::Promise<void> mount(const Placement& placement, Volume volume);
  kj::Promise<void> attachTo(ConfigVolume volume, SystemPartitions::Mountable ready);
  kj::Promise<void> startSwap(kj::StringPtr id, Volume partition);
  kj::Promise<void> turnOn(kj::String id, Volume partition);
  kj::Promise<kj::Maybe<kj::String>> stopSwap(kj::String node);
  bool isSwap(kj::StringPtr node);
  bool isMounted(kj::StringPtr mountpoint);
  // Returns the device at the volume's mount point, if it is the partition; nullptr if nothing is
  // mounted there. Throws if something else is.
  kj::Maybe<kj::String> ownMount(ConfigVolume volume, const Volume& partition);
  void reportUsed(kj::StringPtr id, kj::StringPtr target, const Volume& partition,
                  kj::StringPtr mountLocation);
  kj::Promise<bool> isOpenElsewhere(kj::StringPtr node);
};

}  // namespace talos::machined
