// Compares the documents of volumes with volumes that exist: refuses changes after which the next
// boot would not mount the data, and says what does not take effect, with the reason.
// Pure but for the store, in which VolumeStatuses are read.
//
// A volume keeps what it is as long as it has its partition: plain or encrypted, its size if that
// is larger, its disk. Its document says what it should be.
#pragma once

#include "machined/disk/volumes/system-partitions.h"
#include "machined/resources/store.h"

namespace talos::machined {

// Returns the documents that add, remove or change volumes with a partition, as
// "UserVolumeConfig[data]". They act on disks.
kj::Vector<kj::String> changedVolumes(config::Machine::Reader before,
                                      config::Machine::Reader after);
// Returns those of volumes whose encryption differs, and which both configs encrypt.
kj::Vector<kj::String> volumesWithOtherKeys(config::Machine::Reader before,
                                            config::Machine::Reader after);

// Returns the volume with this id; nullptr without one.
kj::Maybe<config::StorageVolume::Reader> volumeNamed(config::Machine::Reader machine,
                                                     kj::StringPtr id);

// Throws FailedPrecondition if a volume that is in use would become a directory, or the other way
// round.
void checkVolumeTypes(const Store& store, config::Machine::Reader before,
                      config::Machine::Reader after);

// Returns true if the config may let EPHEMERAL grow at the next boot; false: its size of so many
// bytes stays as it is. 0: unknown.
bool mayGrowEphemeral(config::Machine::Reader machine, uint64_t bytes);

// Returns "UserVolumeConfig[data]: REASON" for each volume of the config that is not in use, or not
// as its document says.
kj::Vector<kj::String> volumesNotInEffect(const Store& store, config::Config::Reader config,
                                          bool container);

// Returns the same for the volumes of a config for a node in a container, which makes none, and for
// its FilesystemTrimConfig.
kj::Vector<kj::String> volumesOfContainer(config::Machine::Reader machine);

// Returns why nothing may be written to disks now, "a config is on trial"; nullptr if it may.
kj::Maybe<kj::String> volumesHeld(const Store& store);

}  // namespace talos::machined
