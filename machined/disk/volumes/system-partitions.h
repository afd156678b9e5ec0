// STATE and EPHEMERAL between partition and mount: finds or makes the device that is mounted of
// such a partition, with a file system on it in any case. A plain one is mounted itself; of an
// encrypted one, its mapping is.
//
// An empty partition gets what the config asks for: encryption, then a file system. One that is not
// as the config wants it is refused, and nothing is written, to it or about it; so is one that no
// key opens (machined/disk/encryption/open-encrypted-volume.h). A cut at any line is finished by
// doing it again: a plain file system has a mark while it is made (format-marks.h), set only when
// the partition was seen to be empty; an encrypted volume says itself how far it is. While a system
// is being installed there is no mark, for the next installation empties the partition itself.
//
// Nothing that matters is remembered: a volume is open when its mapping is mounted, and the
// mapping's name says which partition it is. So a restarted brain knows as much as its predecessor.
// Keys are made anew each time, of the config and of the machine's UUID, and are zeroed afterwards.
//
// STATE has to be opened before there is a config: with the list in META
// (machined/disk/encryption/state-keys-in-meta.h), or with the machine's own key, which is tried
// whatever META says. META gets a new list when its keys are in the header, and before those of the
// old one are removed; the first one before the volume is formatted. So at each moment the list in
// META opens STATE. A plain STATE has none.
//
// The header of EPHEMERAL has a backup on STATE, with which it is compared before it is opened
// (machined/disk/encryption/luks-header-guard.h); that of STATE has none: what it could be compared
// with would be readable, and could be changed, by whoever changes the header. Nor has EPHEMERAL
// while STATE is plain: the backup has its keys of before, which are not to be found on a disk.
//
// The outcome of each goes to `reports`.
#pragma once

#include "machined/disk/encryption/luks-header-guard.h"
#include "machined/disk/encryption/state-keys-in-meta.h"
#include "machined/disk/volumes/format-marks.h"
#include "machined/disk/volumes/installer-client.h"
#include "machined/disk/volumes/volume-search.h"

namespace talos::machined {

enum class VolumePhase { kWaiting, kReady, kFailed, kClosed };
kj::StringPtr nameOf(VolumePhase phase);

struct VolumeReport {
  VolumePhase phase = VolumePhase::kWaiting;
  kj::String location, mountLocation;  // the partition's node, and what is mounted
  kj::String fileSystem;
  bool encrypted = false;
  kj::Maybe<unsigned> slot;  // whose key opened it
  kj::String error;          // or, of one that is ready, what was put right
};

// The keys that its header has now.
struct KeysReport {
  kj::Vector<unsigned> slots;
  kj::String keys;  // of the slots in use, as keysText() says it
};

// Gets the state of STATE and EPHEMERAL, for the resource VolumeStatuses.
class VolumeReports {
 public:
  virtual ~VolumeReports() noexcept(false) = default;

  virtual void report(kj::StringPtr label, const VolumeReport& report) = 0;
  // Of a volume that was reported.
  virtual void reportKeys(kj::StringPtr label, const KeysReport& report) = 0;
  // The same: why it cannot be used, although it is as it should be.
  virtual void reportFailure(kj::StringPtr label, kj::StringPtr problem) = 0;
};

// Of the config; none: it is not to be encrypted.
using Encryption = kj::Maybe<config::Encryption::Reader>;

Encryption encryptionOfState(config::Machine::Reader machine);
Encryption encryptionOfEphemeral(config::Machine::Reader machine);

// The partition `label` by the name that it has in the GPT, on this disk ("vda") if one is given;
// none when there is no such name. Throws FailedPrecondition, beginning with the label, when there
// are several, and when it cannot be used. XFS and ext4 only: what is kept there needs owners and
// modes.
kj::Maybe<const Volume&> findNamed(kj::ArrayPtr<const Volume> volumes, kj::StringPtr label,
                                   kj::StringPtr name, kj::Maybe<kj::StringPtr> disk = nullptr);

class SystemPartitions : private kj::TaskSet::ErrorHandler {
 public:
  struct Dependencies {
    Luks& luks;
    StateKeys& stateKeys;
    Installer& installer;
    FormatMarks& marks;
    kj::ConstFunction<kj::Vector<kj::String>()> mappings;  // names of all that are open
    kj::ConstFunction<kj::String()> uuid;  // its text, empty when the machine has none
    SayLine say;
    VolumeReports& reports;
    // The folder of the backups of headers; none: nowhere now.
    kj::Function<kj::Maybe<kj::String>()> backups;
  };
  explicit SystemPartitions(Dependencies deps) : deps(kj::mv(deps)), tasks(*this) {}

  struct Mountable {
    kj::String node;
    FileSystem type;
  };
  // Throws naming the device. With kLeave its keys wait for putRight().
  kj::Promise<Mountable> prepare(const Volume& volume, kj::StringPtr label, Encryption how,
                                 KeyCare care = KeyCare::kPutRight);

  // The mounting of what is ready. One that fails is reported: its disk may have stopped working.
  kj::Promise<void> mounting(kj::StringPtr label, kj::Promise<void> work);

  // The volume that findNamed() finds. A refusal is reported, for then nothing else is looked at.
  kj::Maybe<const Volume&> find(kj::ArrayPtr<const Volume> volumes, kj::StringPtr label,
                                kj::StringPtr name, kj::Maybe<kj::StringPtr> disk = nullptr);

  // A file system was being made on it when that was cut off: whatever it holds, it counts as
  // empty. Rejects when that cannot be known.
  kj::Promise<bool> isUnfinished(const Volume& volume, kj::StringPtr label);

  // Of STATE when it has no plain file system, or an unfinished one, while there is no config.
  // FailedPrecondition when it is neither encrypted nor empty.
  struct Early {
    kj::Maybe<Mountable> open;
    bool locked = false;  // encrypted, and no key is known that opens it
  };
  kj::Promise<Early> prepareEarly(const Volume& volume, kj::StringPtr label);

  // Of the volume that is mounted as `node`, and was opened early or with kLeave: its keys become
  // those of the config that counts. Not when that has other keys than the config that opened it,
  // and none of the machine, so that the next boot could not open it; nor when it was a predecessor
  // who opened it: the next boot does it. Does not reject: what is not as it should be is said.
  kj::Promise<void> putRight(kj::String node, kj::StringPtr label, Encryption how);

  // `node` was unmounted; a mapping is closed. Does not reject: what cannot be closed is said.
  kj::Promise<void> release(kj::String node, kj::StringPtr label);

  // The volume is about to be erased: the backup of its header, with its keys, is removed first.
  // Does not reject: what is left is said.
  kj::Promise<void> forgetHeader(kj::StringPtr label);

  // Mappings of ours that nothing uses are closed: a brain that died between opening one and
  // mounting it has left it, and its disk is in use as long as it is there. Does not reject: what
  // cannot be closed is said.
  kj::Promise<void> closeUnused();

  // Throws FailedPrecondition when this machine cannot have these keys.
  void check(kj::StringPtr label, Encryption how);

  // FailedPrecondition when this would encrypt the volume that is mounted as `node`, make it plain,
  // or format it otherwise.
  void checkChange(kj::StringPtr node, kj::StringPtr label, Encryption before, Encryption after);

  // Of the volume that is mounted as `node`, and goes on being used: its keys become those of
  // `after`, and `persist` is called when a boot can begin to rely on them. With kWhole,
  // checkChange() comes first. `step` is called with each step before it is done.
  kj::Promise<void> change(
      kj::String node, kj::StringPtr label, Encryption before, Encryption after,
      KeyChangeExtent extent, kj::Function<kj::Promise<void>()> persist,
      SayLine step = [](kj::StringPtr) {});

  // A passphrase that opens it as well, and that nothing here keeps; putRecoveryKey() says the
  // rest. Conflict while its keys are being changed, since the config with the slot is another one
  // afterwards.
  kj::Promise<kj::String> newRecoveryKey(kj::String node, kj::StringPtr label, Encryption how,
                                         unsigned slot);

 private:
  // One change of a volume's keys at a time.
  class Turn;
  Dependencies deps;
  unsigned turnsOfState = 0, turnsOfOther = 0;
  kj::ForkedPromise<void> lastOfState = kj::Promise<void>(kj::READY_NOW).fork(),
                          lastOfOther = kj::Promise<void>(kj::READY_NOW).fork();
  // The partition whose keys putRight() changes.
  struct OpenedBy {
    unsigned slot;                       // kKeySlots: unknown from the settings alone
    kj::Maybe<VolumeSettings> settings;  // none: the machine's own key, at whatever slot, or META's
  };
  kj::Maybe<OpenedBy> openedBy;
  kj::TaskSet tasks;

  kj::Promise<kj::String> makeRecoveryKey(kj::String node, kj::StringPtr label, Encryption how,
                                          unsigned slot);
  void taskFailed(kj::Exception&& e) override;
  bool isRight(const Luks::Found& found, const VolumeSettings& settings) const;
  void reportKeys(kj::StringPtr label, Luks::Found found, const VolumeSettings& settings);
  // Reports the keys that its header has now. Does not reject: nothing depends on the report.
  kj::Promise<void> inspectAndReportKeys(kj::StringPtr label, kj::String device,
                                         const VolumeSettings& settings);
  kj::Maybe<kj::String> backupOf(kj::StringPtr label);
  kj::Promise<Mountable> makeMountable(Luks& luks, const Volume& volume, kj::StringPtr label,
                                       kj::String mapped, Luks::Opened opened);
  kj::Promise<kj::Maybe<VolumeSettings>> listInMeta();
  kj::Promise<kj::Maybe<Mountable>> openEarly(const Volume& volume, kj::StringPtr label,
                                              const VolumeSettings& settings, VolumeReport& report);
  kj::Promise<kj::Maybe<Mountable>> openWithoutConfig(const Volume& volume, kj::StringPtr label,
                                                      VolumeReport& report);
  kj::Promise<void> storeStateKeys(kj::StringPtr label, config::Encryption::Reader how);
  kj::Promise<void> removeStateKeys(kj::StringPtr label);
  kj::Promise<Mountable> prepareEncrypted(const Volume& volume, kj::StringPtr label,
                                          config::Encryption::Reader how, KeyCare care,
                                          VolumeReport& report);
  // True if anything was changed.
  kj::Promise<bool> putRightIfOpened(kj::String device, const Luks::Found& found,
                                     const VolumeSettings& settings, PersistKeys persist);
  kj::Promise<void> clearUnfinished(const Volume& volume, kj::StringPtr label);
  kj::Promise<Mountable> preparePlain(const Volume& volume, kj::StringPtr label);
  kj::Promise<void> requireEmpty(const Volume& volume);
  kj::Promise<void> formatPlain(const Volume& volume, kj::StringPtr label, bool unfinished);
  kj::Promise<void> forgetKeys(kj::StringPtr label);
};

// "vda5" of /dev/mapper/vda5-encrypted.
kj::Maybe<kj::String> partitionOfMapping(kj::StringPtr node);

}  // namespace talos::machined
