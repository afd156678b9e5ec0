// STATE, EPHEMERAL and the volumes of documents between partition and mount: finds or makes the
// device to mount for such a partition, in any case with a file system on it. A plain partition is
// mounted itself; for an encrypted partition, its mapping is mounted.
//
// An empty partition gets what the config requests: encryption, then a file system. A partition
// that differs from the config is refused, and nothing is written to it or about it; so is a
// partition that no key opens (machined/disk/encryption/open-encrypted-volume.h). After a cut at
// any line, repeating the work completes it: a plain file system has a mark while it is made
// (format-marks.h), set only when the partition was seen to be empty; an encrypted volume records
// its own progress. During an installation no mark is set, because the next installation empties
// the partition itself.
//
// Nothing that matters is remembered: a volume is open when its mapping is mounted, and the
// mapping's name says which partition it belongs to. So a restarted brain knows as much as its
// predecessor. Keys are derived each time from the config and the machine's UUID, and are zeroed
// afterwards.
//
// STATE must be opened before a config exists: with the list in META
// (machined/disk/encryption/state-keys-in-meta.h), or with the machine's own key, which is tried
// whatever META says. META gets a new list when its keys are in the header, before the keys of the
// old list are removed; it gets the first list before the volume is formatted. So the list in META
// opens STATE at each moment. A plain STATE has no list.
//
// The header of EPHEMERAL has a backup on STATE, with which it is compared before it is opened
// (machined/disk/encryption/luks-header-guard.h). The header of STATE has no backup: anyone who can
// change the header could read and change the backup, too. EPHEMERAL has no backup while STATE is
// plain, because the backup contains its earlier keys, which must not be readable on a disk.
//
// Each outcome goes to `reports`.
#pragma once

#include <kj/map.h>

#include "machined/disk/encryption/luks-header-guard.h"
#include "machined/disk/encryption/sealed-keys.h"
#include "machined/disk/encryption/state-keys-in-meta.h"
#include "machined/disk/volumes/format-marks.h"
#include "machined/disk/volumes/installer-client.h"
#include "machined/disk/volumes/volume-search.h"

namespace talos::machined {

enum class VolumePhase { kWaiting, kReady, kFailed, kClosed };
kj::StringPtr nameOf(VolumePhase phase);

struct VolumeReport {
  VolumePhase phase = VolumePhase::kWaiting;
  kj::String location, mountLocation;  // the partition's node, and the mounted device
  kj::String fileSystem;
  bool encrypted = false;
  kj::Maybe<unsigned> slot;  // slot of the key that opened it
  kj::String error;          // why it waits or failed; in phase kReady, the repairs
  kj::StringPtr type = "partition"_kj;
  uint64_t bytes = 0;  // 0: unknown
  kj::String target;   // where a volume of a document is mounted
};

// The keys that are in its header now.
struct KeysReport {
  kj::Vector<unsigned> slots;
  kj::String keys;  // of the slots in use, by keysText()
};

// Gets the state of STATE and EPHEMERAL, for the resource VolumeStatuses.
class VolumeReports {
 public:
  virtual ~VolumeReports() noexcept(false) = default;

  virtual void report(kj::StringPtr label, const VolumeReport& report) = 0;
  // Reports the keys of a volume that report() was called for.
  virtual void reportKeys(kj::StringPtr label, const KeysReport& report) = 0;
  // Reports for such a volume that it cannot be used, although it is in order.
  virtual void reportFailure(kj::StringPtr label, kj::StringPtr problem) = 0;
  // Reports for such a volume where it is mounted.
  virtual void reportTarget(kj::StringPtr label, kj::StringPtr target) = 0;
};

// The encryption in the config; nullptr: not to be encrypted.
using Encryption = kj::Maybe<config::Encryption::Reader>;

Encryption encryptionOfState(config::Machine::Reader machine);
Encryption encryptionOfEphemeral(config::Machine::Reader machine);

// The part of the config that encrypts a volume of the system. Releases before the documents of
// volumes only warned about a VolumeConfig: a node with its partition in plain use boots with it,
// and says that the encryption is not in effect. machine.systemDiskEncryption always had to act.
enum class EncryptionFrom { kMainDocument, kVolumeConfig };
EncryptionFrom encryptionFrom(config::Config::Reader config, kj::StringPtr label);
// Returns "VolumeConfig[EPHEMERAL].encryption".
kj::String encryptionPath(EncryptionFrom from, kj::StringPtr label);
// Returns that text with ": not in effect: …", for a volume with a plain file system.
kj::String notEncryptedText(EncryptionFrom from, kj::StringPtr label);

// Returns the partition `label` by its name in the GPT, on this disk ("vda") if given; nullptr if
// no partition has the name. Throws FailedPrecondition, beginning with the label, if several have
// it, and if it cannot be used. Only XFS and ext4 are accepted, because its files need owners and
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
    kj::ConstFunction<kj::Vector<kj::String>()> mappings;  // names of all open mappings
    kj::ConstFunction<kj::String()> uuid;                  // as text; empty if the machine lacks it
    SayLine say;
    VolumeReports& reports;
    // Returns the folder of header backups; nullptr while no such folder exists.
    kj::Function<kj::Maybe<kj::String>()> backups;
    // For pauses between tries to open a volume; nullptr: there is one try.
    kj::Maybe<kj::Timer&> timer = nullptr;
    // Gets the volume that waits for a key server, and why; "" when it does not wait any more.
    kj::Function<void(kj::StringPtr error)> waits = [](kj::StringPtr) {};
  };
  explicit SystemPartitions(Dependencies deps) : deps(kj::mv(deps)), tasks(*this) {}

  struct Mountable {
    kj::String node;
    FileSystem type;
  };
  // Throws naming the device. With kLeave, the keys are changed by putRight() only. A plain file
  // system stays plain if a VolumeConfig encrypts it, and the report says so. STATE and
  // EPHEMERAL with a key of a server are tried again, as long as the server does not answer and no
  // other key opens them: the node could not do without them, and the server may be started after
  // the node. The caller ends that by dropping the promise. Volumes of documents are tried again by
  // DataVolumes.
  kj::Promise<Mountable> prepare(const Volume& volume, kj::StringPtr label, Encryption how,
                                 KeyCare care = KeyCare::kPutRight,
                                 EncryptionFrom from = EncryptionFrom::kMainDocument);

  // Waits for the mounting of a ready volume. Reports a failure: its disk may have stopped working.
  kj::Promise<void> mounting(kj::StringPtr label, kj::Promise<void> work);

  // Returns the volume that findNamed() finds. Reports a refusal, because then nothing else is
  // looked at.
  kj::Maybe<const Volume&> find(kj::ArrayPtr<const Volume> volumes, kj::StringPtr label,
                                kj::StringPtr name, kj::Maybe<kj::StringPtr> disk = nullptr);

  // Resolves with true if the making of its file system was cut off: whatever it holds, it counts
  // as empty. Rejects if that cannot be determined.
  kj::Promise<bool> isUnfinished(const Volume& volume, kj::StringPtr label);

  // Prepares STATE while no config exists, if it has no plain file system, or an unfinished one.
  // FailedPrecondition if it is neither encrypted nor empty.
  struct Early {
    kj::Maybe<Mountable> open;
    bool locked = false;  // encrypted, and no known key opens it
    bool served = false;  // locked, and a key server may open it later
  };
  kj::Promise<Early> prepareEarly(const Volume& volume, kj::StringPtr label);

  // Changes the keys of the volume mounted as `node`, which was opened early or with kLeave, to
  // those of the config that counts. Leaves them if that config has other keys than the config that
  // opened the volume, and no key of the machine, so that the next boot could not open it; and if a
  // predecessor opened it: then the next boot changes them. Does not reject: failures are reported.
  kj::Promise<void> putRight(kj::String node, kj::StringPtr label, Encryption how,
                             EncryptionFrom from = EncryptionFrom::kMainDocument);

  // `node` was unmounted; closes its mapping. Does not reject: a failure is reported.
  kj::Promise<void> release(kj::String node, kj::StringPtr label);

  // Prepares the volume's erasure: removes the backup of its header, with its keys. Does not
  // reject: what is left is reported.
  kj::Promise<void> forgetHeader(kj::StringPtr label);

  // Returns the file of the backup of its header; nullptr while it may have no backup.
  kj::Maybe<kj::String> backupOf(kj::StringPtr label);

  // Closes our unused mappings. A brain that died between opening and mounting a volume has left
  // its mapping, and the disk is in use while the mapping exists. Does not reject: failures are
  // reported.
  kj::Promise<void> closeUnused();

  // Throws FailedPrecondition if this machine cannot have these keys.
  void check(kj::StringPtr label, Encryption how);

  // FailedPrecondition if the change would encrypt the volume mounted as `node`, make it plain, or
  // format it differently.
  void checkChange(kj::StringPtr node, kj::StringPtr label, Encryption before, Encryption after);

  // Changes the keys of the volume mounted as `node`, which stays in use, to those of `after`.
  // Calls `persist` when boots can begin to rely on them, and `step` with each step before it is
  // done. With kWhole, checkChange() comes first.
  kj::Promise<void> change(
      kj::String node, kj::StringPtr label, Encryption before, Encryption after,
      KeyChangeExtent extent, kj::Function<kj::Promise<void>()> persist,
      SayLine step = [](kj::StringPtr) {});

  // Adds a recovery key, and returns its passphrase, which no part of the system keeps; see
  // putRecoveryKey(). Conflict while the volume's keys are being changed, because the config with
  // the slot is another one afterwards.
  kj::Promise<kj::String> newRecoveryKey(kj::String node, kj::StringPtr label, Encryption how,
                                         unsigned slot);

 private:
  // Serializes the changes of a volume's keys.
  class Turn;
  Dependencies deps;
  // The changes of the keys of one volume. That of another may be made within them.
  struct Turns {
    unsigned count = 0;
    kj::ForkedPromise<void> last = kj::Promise<void>(kj::READY_NOW).fork();
  };
  kj::TreeMap<kj::String, kj::Own<Turns>> turns;  // by the volume
  // The key that opened the partition whose keys putRight() changes.
  struct OpenedBy {
    unsigned slot;                       // kKeySlots: not known from the settings alone
    kj::Maybe<VolumeSettings> settings;  // nullptr: the machine's own key, at any slot, or META's
  };
  kj::Maybe<OpenedBy> openedBy;
  kj::TaskSet tasks;

  kj::Promise<kj::String> makeRecoveryKey(kj::String node, kj::StringPtr label, Encryption how,
                                          unsigned slot);
  void taskFailed(kj::Exception&& e) override;
  bool isRight(const Luks::Found& found, const VolumeSettings& settings) const;
  void reportKeys(kj::StringPtr label, Luks::Found found, const VolumeSettings& settings);
  // Reports the keys that are in its header now. Does not reject: nothing depends on the report.
  kj::Promise<void> inspectAndReportKeys(kj::StringPtr label, kj::String device,
                                         const VolumeSettings& settings);
  kj::Promise<Mountable> makeMountable(Luks& luks, const Volume& volume, kj::StringPtr label,
                                       kj::String mapped, Luks::Opened opened);
  kj::Promise<kj::Maybe<VolumeSettings>> listInMeta();
  kj::Promise<kj::Maybe<Mountable>> openEarly(const Volume& volume, kj::StringPtr label,
                                              const VolumeSettings& settings, VolumeReport& report);
  kj::Promise<kj::Maybe<Mountable>> openWithoutConfig(const Volume& volume, kj::StringPtr label,
                                                      VolumeReport& report, bool& served);
  kj::Promise<void> storeStateKeys(kj::StringPtr label, config::Encryption::Reader how);
  kj::Promise<void> removeStateKeys(kj::StringPtr label);
  kj::Promise<Mountable> prepareEncrypted(const Volume& volume, kj::StringPtr label,
                                          config::Encryption::Reader how, KeyCare care,
                                          VolumeReport& report);
  // Resolves with true if anything was changed.
  kj::Promise<bool> putRightIfOpened(kj::String device, const Luks::Found& found,
                                     const VolumeSettings& settings, PersistKeys persist);
  kj::Promise<void> clearUnfinished(const Volume& volume, kj::StringPtr label);
  kj::Promise<Mountable> preparePlain(const Volume& volume, kj::StringPtr label);
  kj::Promise<void> requireEmpty(const Volume& volume, kj::StringPtr label);
  kj::Promise<void> formatPlain(const Volume& volume, kj::StringPtr label, bool unfinished);
  kj::Promise<void> forgetKeys(kj::StringPtr label);
};

// Returns "vda5" for /dev/mapper/vda5-encrypted.
kj::Maybe<kj::String> partitionOfMapping(kj::StringPtr node);

}  // namespace talos::machined
